//! Engines.
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int};
use std::ptr;
use std::sync::Arc;

use crate::batch::{Batch, Request};
use crate::error::{check, Code, Error, Result};
use crate::ffi;
use crate::region::Region;
use crate::segment::{self, Buffer, Segment};

/// The handle, destroyed with its last owner: regions, segments and batches own it too.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) ffi::transfer_engine_t);

// Not an address: the library checks it, and takes calls from any thread.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        unsafe { ffi::destroyTransferEngine(self.0) }
    }
}

/// A message beside the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What it is called.
    pub name: String,
    /// What it says.
    pub msg: String,
}

/// A member of the cluster: one segment of ours, and the way to those of others. Clones are the same engine. It leaves the cluster
/// when the last clone, region, segment and batch of it is dropped.
#[derive(Clone, Debug)]
pub struct Engine(pub(crate) Arc<Handle>);

pub(crate) fn c_string(s: &str, call: &'static str) -> Result<CString> {
    CString::new(s).map_err(|_| Error::call(call, "text with a NUL", Code::INVALID_ARGUMENT))
}

impl Engine {
    fn create(conn: &str, name: &str, auto_discover: c_int) -> Result<Engine> {
        const CALL: &str = "createTransferEngine";
        let (conn, c_name, ip) = (c_string(conn, CALL)?, c_string(name, CALL)?, c_string("", CALL)?);
        let h = unsafe { ffi::createTransferEngine(conn.as_ptr(), c_name.as_ptr(), ip.as_ptr(), 0, auto_discover) };
        if h.is_null() {
            return Err(Error::call(CALL, name, Code::CONTEXT));
        }
        Ok(Engine(Arc::new(Handle(h))))
    }

    /// Joins the cluster as segment `name` (`""`: the host name; a port in it is the RPC port) by a metadata store: `etcd://H:P`,
    /// `redis://H:P`, `http://H:P/metadata`, `H:P` (etcd), `P2PHANDSHAKE` for none, `""` for `MC_METADATA_SERVER`. Serves by rdma where
    /// there are NICs, else by tcp.
    pub fn open(conn: &str, name: &str) -> Result<Engine> {
        Engine::create(conn, name, 1)
    }

    /// [`Engine::open`] that serves by tcp until [`Engine::install_transport`] says more.
    pub fn without_discovery(conn: &str, name: &str) -> Result<Engine> {
        Engine::create(conn, name, 0)
    }

    /// Serves by `tcp` or `rdma` (`nvmeof`, `local` and `shm` are always there). `matrix`: a priority matrix as JSON; `None`: the host's
    /// own. Before the first segment is opened and the first batch allocated only, where it changes anything.
    pub fn install_transport(&self, protocol: &str, matrix: Option<&str>) -> Result<()> {
        const CALL: &str = "installTransport";
        let (c_protocol, matrix) = (c_string(protocol, CALL)?, c_string(matrix.unwrap_or(""), CALL)?);
        let mut args = [matrix.as_ptr() as *mut _, ptr::null_mut()];
        let args = if matrix.as_bytes().is_empty() { ptr::null_mut() } else { args.as_mut_ptr() };
        let t = unsafe { ffi::installTransport(self.0 .0, c_protocol.as_ptr(), args) };
        if t.is_null() {
            return Err(Error::call(CALL, protocol, Code::INVALID_ARGUMENT));
        }
        Ok(())
    }

    /// Where peers reach us, `"10.0.0.1:15017"`; in P2P that is the segment's name.
    pub fn local_address(&self) -> Result<String> {
        let mut buf = [0 as c_char; 320];
        let r = unsafe { ffi::getLocalIpAndPort(self.0 .0, buf.as_mut_ptr(), buf.len()) };
        check(r, "getLocalIpAndPort", "")?;
        Ok(unsafe { CStr::from_ptr(buf.as_ptr()) }.to_string_lossy().into_owned())
    }

    /// Zeroed memory of `len` bytes, registered: transfers may use it, and peers may read and write it. `location`: the device it is to
    /// be taken as near to (`"cpu:0"`), `"*"`: found out.
    pub fn alloc(&self, len: usize, location: &str) -> Result<Region> {
        Region::new(self, len, location, true)
    }

    /// [`Engine::alloc`] of memory that no peer can reach.
    pub fn alloc_private(&self, len: usize, location: &str) -> Result<Region> {
        Region::new(self, len, location, false)
    }

    /// Registers memory of the program's.
    ///
    /// # Safety
    /// `[addr, addr + len)` must be memory that stays until the region is dropped, and, where that could not wait for everybody who
    /// used it (see [`Region::unregister`]), for ever. Others write to it at any time, so that no reference to it may live.
    pub unsafe fn register_raw(&self, addr: *mut u8, len: usize, location: &str, remote: bool) -> Result<Region> {
        unsafe { Region::from_raw(self, addr, len, location, remote) }
    }

    /// What a peer serves under this name; our own name is our own segment. Blocks for the store.
    pub fn segment(&self, name: &str) -> Result<Segment> {
        Segment::open(self, name, true)
    }

    /// [`Engine::segment`], with what is known about it fetched again.
    pub fn segment_fresh(&self, name: &str) -> Result<Segment> {
        Segment::open(self, name, false)
    }

    /// Our own buffers as peers see them.
    pub fn buffers(&self) -> Result<Vec<Buffer>> {
        segment::buffers(&self.0, ffi::LOCAL_SEGMENT)
    }

    /// Room for `capacity` requests (1 to 1 << 24).
    pub fn batch(&self, capacity: usize) -> Result<Batch> {
        Batch::new(self, capacity)
    }

    /// The requests as a batch of their own: returns when all have ended, with the first that did not complete.
    pub fn transfer(&self, requests: &[Request<'_>]) -> Result<()> {
        if requests.is_empty() {
            return Ok(());
        }
        let batch = self.batch(requests.len())?;
        batch.submit(requests)?;
        batch.wait(None)
    }

    /// All notifications that have arrived since the last call.
    pub fn notifications(&self) -> Vec<Notification> {
        let mut n = 0;
        let list = unsafe { ffi::getNotifsFromEngine(self.0 .0, &mut n) };
        let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned();
        let mut got = Vec::new();
        for i in 0..n as usize {
            let m = unsafe { *list.add(i) };
            got.push(Notification { name: text(m.name), msg: text(m.msg) });
        }
        unsafe { ffi::freeNotifsMsgBuf(list, n) };
        got
    }

    /// Fetches what is known about all open segments again. Never needed: it happens by itself.
    pub fn sync(&self) -> Result<()> {
        check(unsafe { ffi::syncSegmentCache(self.0 .0) }, "syncSegmentCache", "").map(drop)
    }

    /// Takes the engine's entries out of the store on SIGINT, SIGTERM and at the end of the process; the signals end it with 128 + their
    /// number. Takes both over.
    pub fn enable_graceful_shutdown(&self) {
        unsafe { ffi::enableGracefulShutdown(self.0 .0) }
    }

    /// The NICs of this host and its priority matrix: text, or JSON.
    pub fn show_links(&self, json: bool) -> Result<String> {
        let mut buf = vec![0u8; 1 << 20];
        let r = unsafe { ffi::showLinks(self.0 .0, buf.as_mut_ptr().cast(), buf.len(), json.into()) };
        check(r, "showLinks", "")?;
        buf.truncate(buf.iter().position(|&b| b == 0).unwrap_or(buf.len()));
        Ok(String::from_utf8_lossy(&buf).into_owned())
    }
}
