//! The C interface as it is: transfer_engine_c.h, where every function is explained. The rest of this crate is safe.
#![allow(non_camel_case_types, non_snake_case, missing_docs)]

use std::os::raw::{c_char, c_double, c_int, c_void};

pub type segment_id_t = i32;
pub type segment_handle_t = i32;
pub type batch_id_t = u64;
pub type transfer_engine_t = *mut c_void;
pub type transport_t = *mut c_void;

pub const LOCAL_SEGMENT: segment_id_t = 0;
pub const INVALID_BATCH: batch_id_t = u64::MAX;
pub const OPCODE_READ: c_int = 0;
pub const OPCODE_WRITE: c_int = 1;
pub const STATUS_WAITING: c_int = 0;
pub const STATUS_PENDING: c_int = 1;
pub const STATUS_INVALID: c_int = 2;
pub const STATUS_CANCELED: c_int = 3;
pub const STATUS_COMPLETED: c_int = 4;
pub const STATUS_TIMEOUT: c_int = 5;
pub const STATUS_FAILED: c_int = 6;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct transfer_request_t {
    pub opcode: c_int,
    pub source: *mut c_void,
    pub target_id: segment_id_t,
    pub target_offset: u64,
    pub length: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct transfer_status_t {
    pub status: c_int,
    pub transferred_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct buffer_entry_t {
    pub addr: *mut c_void,
    pub length: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct notify_msg_t {
    pub name: *mut c_char,
    pub msg: *mut c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct nic_load_stat_t {
    pub device_name: [c_char; 64],
    pub inflight_bytes: u64,
    pub ewma_bandwidth_bps: c_double,
}

const _: () = assert!(std::mem::size_of::<transfer_request_t>() == 40);
const _: () = assert!(std::mem::size_of::<transfer_status_t>() == 16);
const _: () = assert!(std::mem::size_of::<buffer_entry_t>() == 16);
const _: () = assert!(std::mem::size_of::<notify_msg_t>() == 16);
const _: () = assert!(std::mem::size_of::<nic_load_stat_t>() == 80);

extern "C" {
    pub fn createTransferEngine(
        conn: *const c_char,
        local_server_name: *const c_char,
        ip_or_host_name: *const c_char,
        rpc_port: u64,
        auto_discover: c_int,
    ) -> transfer_engine_t;
    pub fn destroyTransferEngine(e: transfer_engine_t);
    pub fn discoverTopology(e: transfer_engine_t) -> c_int;
    pub fn getLocalIpAndPort(e: transfer_engine_t, buf: *mut c_char, len: usize) -> c_int;
    pub fn installTransport(e: transfer_engine_t, proto: *const c_char, args: *mut *mut c_void) -> transport_t;
    pub fn uninstallTransport(e: transfer_engine_t, proto: *const c_char) -> c_int;

    pub fn openSegment(e: transfer_engine_t, name: *const c_char) -> segment_id_t;
    pub fn openSegmentNoCache(e: transfer_engine_t, name: *const c_char) -> segment_id_t;
    pub fn closeSegment(e: transfer_engine_t, id: segment_id_t) -> c_int;
    pub fn warmupEfaSegment(e: transfer_engine_t, name: *const c_char) -> c_int;
    pub fn removeLocalSegment(e: transfer_engine_t, name: *const c_char) -> c_int;
    pub fn syncSegmentCache(e: transfer_engine_t) -> c_int;
    pub fn getSegmentBuffers(e: transfer_engine_t, id: segment_id_t, buffers: *mut buffer_entry_t, max: usize) -> c_int;

    pub fn registerLocalMemory(
        e: transfer_engine_t,
        addr: *mut c_void,
        length: usize,
        location: *const c_char,
        remote_accessible: c_int,
    ) -> c_int;
    pub fn unregisterLocalMemory(e: transfer_engine_t, addr: *mut c_void) -> c_int;
    pub fn registerLocalMemoryBatch(
        e: transfer_engine_t,
        buffers: *mut buffer_entry_t,
        n: usize,
        location: *const c_char,
    ) -> c_int;
    pub fn unregisterLocalMemoryBatch(e: transfer_engine_t, addrs: *mut *mut c_void, n: usize) -> c_int;

    pub fn allocateBatchID(e: transfer_engine_t, capacity: usize) -> batch_id_t;
    pub fn submitTransfer(e: transfer_engine_t, batch: batch_id_t, requests: *mut transfer_request_t, n: usize) -> c_int;
    pub fn submitTransferWithNotify(
        e: transfer_engine_t,
        batch: batch_id_t,
        requests: *mut transfer_request_t,
        n: usize,
        msg: notify_msg_t,
    ) -> c_int;
    pub fn getTransferStatus(e: transfer_engine_t, batch: batch_id_t, task: usize, status: *mut transfer_status_t) -> c_int;
    pub fn freeBatchID(e: transfer_engine_t, batch: batch_id_t) -> c_int;

    pub fn getNotifsFromEngine(e: transfer_engine_t, n: *mut c_int) -> *mut notify_msg_t;
    pub fn freeNotifsMsgBuf(msgs: *mut notify_msg_t, n: c_int) -> c_int;
    pub fn genNotifyInEngine(e: transfer_engine_t, target_id: u64, msg: notify_msg_t) -> c_int;
    pub fn getNicLoadStats(e: transfer_engine_t, stats: *mut nic_load_stat_t, count: *mut usize) -> c_int;
    pub fn enableGracefulShutdown(e: transfer_engine_t);
    pub fn showLinks(e: transfer_engine_t, buf: *mut c_char, len: usize, json: c_int) -> c_int;
}
