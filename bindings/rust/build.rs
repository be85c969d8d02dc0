//! Where libtransfer_engine is: in TE_LIB_DIR, else in the build folder of the tree that this crate lies in, else where the linker
//! looks anyway. A crate that depends on this one finds the folder in DEP_TRANSFER_ENGINE_LIB_DIR.
use std::env;
use std::path::PathBuf;

fn lib_dir() -> Option<PathBuf> {
    if let Some(dir) = env::var_os("TE_LIB_DIR") {
        return Some(dir.into());
    }
    let build = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?).join("../../build");
    let build = build.canonicalize().ok()?;
    build.join("libtransfer_engine.so").exists().then_some(build)
}

fn main() {
    println!("cargo:rerun-if-env-changed=TE_LIB_DIR");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-lib=dylib=transfer_engine");
    if let Some(dir) = lib_dir() {
        let dir = dir.display();
        println!("cargo:rustc-link-search=native={dir}");
        // Of this crate's tests and examples.
        println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
        println!("cargo:lib_dir={dir}");
    }
}
