//! Segments of peers.
use std::os::raw::c_char;
use std::ptr;
use std::sync::Arc;

use crate::engine::{c_string, Engine, Handle, Notification};
use crate::error::{check, Result};
use crate::ffi;

/// A piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Where in the segment: an address in memory, an offset in files.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
}

/// What a peer serves under a name. Dropped, it is closed, once transfers in flight to it have ended.
#[derive(Debug)]
pub struct Segment {
    pub(crate) engine: Arc<Handle>,
    pub(crate) id: ffi::segment_id_t,
    name: String,
}

/// Those of an open segment.
pub(crate) fn buffers(engine: &Handle, id: ffi::segment_id_t) -> Result<Vec<Buffer>> {
    const NONE: ffi::buffer_entry_t = ffi::buffer_entry_t { addr: ptr::null_mut(), length: 0 };
    let mut list = vec![NONE; 16];
    loop {
        let n = unsafe { ffi::getSegmentBuffers(engine.0, id, list.as_mut_ptr(), list.len()) };
        let n = check(n, "getSegmentBuffers", "")? as usize;
        if n <= list.len() {
            let buffer = |b: &ffi::buffer_entry_t| Buffer { addr: b.addr as u64, len: b.length as u64 };
            return Ok(list[..n].iter().map(buffer).collect());
        }
        list.resize(n, NONE);
    }
}

impl Segment {
    pub(crate) fn open(engine: &Engine, name: &str, cached: bool) -> Result<Segment> {
        const CALL: &str = "openSegment";
        let c_name = c_string(name, CALL)?;
        let id = unsafe {
            if cached {
                ffi::openSegment(engine.0 .0, c_name.as_ptr())
            } else {
                ffi::openSegmentNoCache(engine.0 .0, c_name.as_ptr())
            }
        };
        let id = check(id, CALL, name)?;
        Ok(Segment { engine: engine.0.clone(), id, name: name.to_string() })
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its id in the C interface; 0 is our own.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Where it lets peers read and write, in its own order.
    pub fn buffers(&self) -> Result<Vec<Buffer>> {
        buffers(&self.engine, self.id)
    }

    /// Sends a message to the segment's owner, and returns once that has it.
    pub fn notify(&self, n: &Notification) -> Result<()> {
        const CALL: &str = "genNotifyInEngine";
        let (name, msg) = (c_string(&n.name, CALL)?, c_string(&n.msg, CALL)?);
        let c = ffi::notify_msg_t { name: name.as_ptr() as *mut c_char, msg: msg.as_ptr() as *mut c_char };
        let r = unsafe { ffi::genNotifyInEngine(self.engine.0, self.id as u64, c) };
        check(r, CALL, &self.name).map(drop)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        unsafe { ffi::closeSegment(self.engine.0, self.id) };
    }
}
