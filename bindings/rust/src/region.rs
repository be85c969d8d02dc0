//! Registered memory.
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::Arc;

use crate::engine::{c_string, Engine, Handle};
use crate::error::{check, Code, Error, Result};
use crate::ffi;

const PAGE: usize = 4096;
const WORD: usize = 8;

/// Memory that transfers may use, and peers unless it is private. Others change it at any time, so there are no references to it: bytes
/// are copied in and out.
///
/// Dropped, it is unregistered, which waits up to 5 s for those who use it; its memory is freed only when that is done, else leaked.
#[derive(Debug)]
pub struct Region {
    engine: Arc<Handle>,
    addr: *mut u8,
    len: usize,
    layout: Option<Layout>, // of memory that is ours
    registered: bool,
}

// Bytes are read and written atomically.
unsafe impl Send for Region {}
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn new(engine: &Engine, len: usize, location: &str, remote: bool) -> Result<Region> {
        let refuse = |code| Error::call("registerLocalMemory", location, code);
        if len == 0 {
            return Err(refuse(Code::INVALID_ARGUMENT));
        }
        let layout = Layout::from_size_align(len, PAGE).map_err(|_| refuse(Code::INVALID_ARGUMENT))?;
        let addr = unsafe { alloc_zeroed(layout) };
        if addr.is_null() {
            return Err(refuse(Code::MEMORY));
        }
        let region = unsafe { Region::from_raw(engine, addr, len, location, remote) };
        match region {
            Ok(mut r) => {
                r.layout = Some(layout);
                Ok(r)
            }
            Err(e) => {
                unsafe { dealloc(addr, layout) };
                Err(e)
            }
        }
    }

    /// See [`Engine::register_raw`].
    pub(crate) unsafe fn from_raw(engine: &Engine, addr: *mut u8, len: usize, location: &str, remote: bool) -> Result<Region> {
        const CALL: &str = "registerLocalMemory";
        let c_location = c_string(location, CALL)?;
        let r = unsafe { ffi::registerLocalMemory(engine.0 .0, addr.cast(), len, c_location.as_ptr(), remote.into()) };
        check(r, CALL, location)?;
        Ok(Region { engine: engine.0.clone(), addr, len, layout: None, registered: true })
    }

    /// Where it starts, as peers name it.
    pub fn addr(&self) -> u64 {
        self.addr as u64
    }

    /// The same to read and write by hand: others do so too.
    pub fn as_ptr(&self) -> *mut u8 {
        self.addr
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes from `offset` on out of the region. Panics beyond its end.
    pub fn read_at(&self, offset: usize, to: &mut [u8]) {
        self.check_range(offset, to.len());
        let (head, words) = self.parts(offset, to.len());
        let (first, rest) = to.split_at_mut(head);
        let (middle, last) = rest.split_at_mut(words * WORD);
        for (i, b) in first.iter_mut().enumerate() {
            *b = self.byte(offset + i).load(Relaxed);
        }
        for (i, w) in middle.chunks_exact_mut(WORD).enumerate() {
            w.copy_from_slice(&self.word(offset + head + i * WORD).load(Relaxed).to_ne_bytes());
        }
        for (i, b) in last.iter_mut().enumerate() {
            *b = self.byte(offset + head + words * WORD + i).load(Relaxed);
        }
    }

    /// Copies bytes into the region, from `offset` on. Panics beyond its end.
    pub fn write_at(&self, offset: usize, from: &[u8]) {
        self.check_range(offset, from.len());
        let (head, words) = self.parts(offset, from.len());
        let (first, rest) = from.split_at(head);
        let (middle, last) = rest.split_at(words * WORD);
        for (i, b) in first.iter().enumerate() {
            self.byte(offset + i).store(*b, Relaxed);
        }
        for (i, w) in middle.chunks_exact(WORD).enumerate() {
            let mut word = [0; WORD];
            word.copy_from_slice(w);
            self.word(offset + head + i * WORD).store(u64::from_ne_bytes(word), Relaxed);
        }
        for (i, b) in last.iter().enumerate() {
            self.byte(offset + head + words * WORD + i).store(*b, Relaxed);
        }
    }

    /// Unregisters and frees it; the region comes back with [`Code::BATCH_BUSY`] when somebody still uses it after 5 s.
    pub fn unregister(mut self) -> std::result::Result<(), (Region, Error)> {
        match self.try_unregister() {
            Ok(()) => Ok(()),
            Err(e) => Err((self, e)),
        }
    }

    fn try_unregister(&mut self) -> Result<()> {
        let r = unsafe { ffi::unregisterLocalMemory(self.engine.0, self.addr.cast()) };
        check(r, "unregisterLocalMemory", "")?;
        self.registered = false;
        Ok(())
    }

    fn check_range(&self, offset: usize, len: usize) {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "range {offset}+{len} beyond the region's {} bytes",
            self.len
        );
    }

    /// Bytes up to the first whole word of the range, and how many words follow.
    fn parts(&self, offset: usize, len: usize) -> (usize, usize) {
        let head = (self.addr as usize + offset).wrapping_neg() % WORD;
        let head = head.min(len);
        (head, (len - head) / WORD)
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        unsafe { &*self.addr.add(at).cast() }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // Aligned: parts() saw to it.
        unsafe { &*self.addr.add(at).cast() }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.registered {
            let _ = self.try_unregister();
        }
        if let (Some(layout), false) = (self.layout, self.registered) {
            unsafe { dealloc(self.addr, layout) };
        }
    }
}
