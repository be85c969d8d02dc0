//! Moves bytes between segments: memory or files, here or on other hosts. This is libte under the names that Mooncake's Transfer
//! Engine has in C ([`ffi`]), and safe wrappers over them.
//!
//! * [`Engine`]: a member of the cluster, one segment of ours and the way to those of others.
//! * [`Region`]: memory that is registered, owned by this crate for as long as anybody may touch it.
//! * [`Segment`]: what a peer serves under a name.
//! * [`Batch`]: requests that are in flight together.
//!
//! Each closes with its last owner, and keeps its engine open until then. Memory cannot be freed while it is in flight: a region that
//! is dropped is unregistered first, which waits for what uses it, and where that does not end, its memory is leaked. Everything may
//! be used by several threads at once.
//!
//! ```no_run
//! use transfer_engine::{Engine, Request};
//!
//! fn main() -> transfer_engine::Result<()> {
//!     let engine = Engine::open("http://10.0.0.1:8080/metadata", "node1")?;
//!     let region = engine.alloc(1 << 20, "*")?;
//!     let segment = engine.segment("node2")?;
//!     let there = segment.buffers()?[0];
//!     engine.transfer(&[Request::read(&region, 0, &segment, there.addr, 4096)])?;
//!     let mut bytes = [0; 4096];
//!     region.read_at(0, &mut bytes);
//!     Ok(())
//! }
//! ```
//!
//! # Building
//!
//! The library is looked for in `TE_LIB_DIR`, else in the `build` folder of the tree of te that this crate lies in. A program that
//! depends on this crate finds it at run time by `LD_LIBRARY_PATH`, by installation, or by a build script of its own:
//!
//! ```
//! if let Ok(dir) = std::env::var("DEP_TRANSFER_ENGINE_LIB_DIR") {
//!     println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
//! }
//! ```
#![deny(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

mod batch;
mod engine;
mod error;
pub mod ffi;
mod region;
mod segment;

pub use batch::{Batch, Op, Request, Status};
pub use engine::{Engine, Notification};
pub use error::{Code, Error, Result, State};
pub use region::Region;
pub use segment::{Buffer, Segment};
