//! Where the library was found when this was built is where it is looked for when it runs.
fn main() {
    if let Ok(dir) = std::env::var("DEP_TRANSFER_ENGINE_LIB_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
    }
}
