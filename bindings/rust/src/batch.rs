//! Requests, and batches of them.
use std::os::raw::c_char;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::{c_string, Engine, Handle, Notification};
use crate::error::{check, Code, Error, Result, State};
use crate::ffi;
use crate::region::Region;
use crate::segment::Segment;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// From the segment to the region.
    Read,
    /// From the region to the segment.
    Write,
}

/// One transfer.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Which way.
    pub op: Op,
    /// The local side, of both.
    pub region: &'a Region,
    /// Where in the region, bytes from its start.
    pub offset: usize,
    /// The other side.
    pub segment: &'a Segment,
    /// Where in the segment: see [`crate::Buffer::addr`].
    pub target_offset: u64,
    /// Bytes.
    pub len: usize,
}

impl<'a> Request<'a> {
    /// Reads `len` bytes at `target_offset` of the segment to `offset` of the region.
    pub fn read(region: &'a Region, offset: usize, segment: &'a Segment, target_offset: u64, len: usize) -> Self {
        Request { op: Op::Read, region, offset, segment, target_offset, len }
    }

    /// Writes `len` bytes at `offset` of the region to `target_offset` of the segment.
    pub fn write(region: &'a Region, offset: usize, segment: &'a Segment, target_offset: u64, len: usize) -> Self {
        Request { op: Op::Write, region, offset, segment, target_offset, len }
    }

    fn to_c(self, engine: &Handle, call: &'static str) -> Result<ffi::transfer_request_t> {
        let inside = self.offset <= self.region.len() && self.len <= self.region.len() - self.offset;
        // Ids of one engine mean something else to another.
        if !inside || self.segment.engine.0 != engine.0 {
            return Err(Error::call(call, self.segment.name(), Code::INVALID_ARGUMENT));
        }
        Ok(ffi::transfer_request_t {
            opcode: match self.op {
                Op::Read => ffi::OPCODE_READ,
                Op::Write => ffi::OPCODE_WRITE,
            },
            source: self.region.as_ptr().wrapping_add(self.offset).cast(),
            target_id: self.segment.id,
            target_offset: self.target_offset,
            length: self.len as u64,
        })
    }
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// How it is.
    pub state: State,
    /// Bytes, a lower bound.
    pub transferred: u64,
}

/// Requests that are in flight together. Dropped, it waits until none is, which the engine's time-outs see to.
#[derive(Debug)]
pub struct Batch {
    engine: Arc<Handle>,
    id: ffi::batch_id_t,
    submitted: AtomicUsize,
}

impl Batch {
    pub(crate) fn new(engine: &Engine, capacity: usize) -> Result<Batch> {
        let id = unsafe { ffi::allocateBatchID(engine.0 .0, capacity) };
        if id == ffi::INVALID_BATCH {
            return Err(Error::call("allocateBatchID", "", Code::INVALID_ARGUMENT));
        }
        Ok(Batch { engine: engine.0.clone(), id, submitted: AtomicUsize::new(0) })
    }

    fn to_c(&self, requests: &[Request<'_>], call: &'static str) -> Result<Vec<ffi::transfer_request_t>> {
        requests.iter().map(|r| r.to_c(&self.engine, call)).collect()
    }

    /// Starts all of the requests, or none. Never waits for the network. Again until the batch is full; tasks are counted on.
    pub fn submit(&self, requests: &[Request<'_>]) -> Result<()> {
        const CALL: &str = "submitTransfer";
        let mut list = self.to_c(requests, CALL)?;
        let r = unsafe { ffi::submitTransfer(self.engine.0, self.id, list.as_mut_ptr(), list.len()) };
        check(r, CALL, "")?;
        self.submitted.fetch_add(list.len(), Relaxed);
        Ok(())
    }

    /// The same; once all of the batch has completed, `n` goes to the target of the first request.
    pub fn submit_with_notify(&self, requests: &[Request<'_>], n: &Notification) -> Result<()> {
        const CALL: &str = "submitTransferWithNotify";
        let (name, msg) = (c_string(&n.name, CALL)?, c_string(&n.msg, CALL)?);
        let c = ffi::notify_msg_t { name: name.as_ptr() as *mut c_char, msg: msg.as_ptr() as *mut c_char };
        let mut list = self.to_c(requests, CALL)?;
        let r = unsafe { ffi::submitTransferWithNotify(self.engine.0, self.id, list.as_mut_ptr(), list.len(), c) };
        check(r, CALL, "")?;
        self.submitted.fetch_add(list.len(), Relaxed);
        Ok(())
    }

    /// How many requests have been submitted.
    pub fn len(&self) -> usize {
        self.submitted.load(Relaxed)
    }

    /// Has none been?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How far a request is.
    pub fn status(&self, task: usize) -> Result<Status> {
        let mut s = ffi::transfer_status_t::default();
        let r = unsafe { ffi::getTransferStatus(self.engine.0, self.id, task, &mut s) };
        check(r, "getTransferStatus", "")?;
        let state = match s.status {
            ffi::STATUS_WAITING | ffi::STATUS_PENDING => State::Waiting,
            ffi::STATUS_INVALID => State::Invalid,
            ffi::STATUS_CANCELED => State::Canceled,
            ffi::STATUS_COMPLETED => State::Completed,
            ffi::STATUS_TIMEOUT => State::Timeout,
            _ => State::Failed,
        };
        Ok(Status { state, transferred: s.transferred_bytes })
    }

    /// Waits until all requests have ended, at most `timeout` (then [`Error::NotYet`]); without one the engine's time-outs see to it.
    /// The first that has not completed is the error.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let until = timeout.map(|t| Instant::now() + t);
        let mut failed = Ok(());
        for task in 0..self.len() {
            let state = self.wait_task(task, until)?;
            if state != State::Completed && failed.is_ok() {
                failed = Err(Error::Transfer { task, state });
            }
        }
        failed
    }

    fn wait_task(&self, task: usize, until: Option<Instant>) -> Result<State> {
        let mut tries = 0;
        loop {
            let state = self.status(task)?.state;
            if state != State::Waiting {
                return Ok(state);
            }
            if until.map_or(false, |u| Instant::now() >= u) {
                return Err(Error::NotYet);
            }
            pause(&mut tries);
        }
    }
}

/// What is short is over before a sleep would be.
fn pause(tries: &mut u32) {
    *tries += 1;
    if *tries < 200 {
        thread::yield_now();
    } else {
        thread::sleep(Duration::from_micros((*tries - 150).min(1000).into()));
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut tries = 0;
        while unsafe { ffi::freeBatchID(self.engine.0, self.id) } == Code::BATCH_BUSY.0 {
            pause(&mut tries);
        }
    }
}
