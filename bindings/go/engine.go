package transferengine

/*
#include <stdlib.h>
#include "transfer_engine_c.h"

// Addresses come as numbers: what they point to is not Go's.
static int go_register(transfer_engine_t e, uintptr_t addr, size_t length, const char *location, int remote)
{
	return registerLocalMemory(e, (void *)addr, length, location, remote);
}

static int go_unregister(transfer_engine_t e, uintptr_t addr)
{
	return unregisterLocalMemory(e, (void *)addr);
}

static int go_register_batch(transfer_engine_t e, void *buffers, size_t n, const char *location)
{
	return registerLocalMemoryBatch(e, (buffer_entry_t *)buffers, n, location);
}

static int go_unregister_batch(transfer_engine_t e, void *addrs, size_t n)
{
	return unregisterLocalMemoryBatch(e, (void **)addrs, n);
}

static int go_segment_buffers(transfer_engine_t e, segment_id_t id, void *buffers, size_t max)
{
	return getSegmentBuffers(e, id, (buffer_entry_t *)buffers, max);
}

static int go_notify(transfer_engine_t e, uint64_t target, char *name, char *msg)
{
	notify_msg_t notify = { name, msg };

	return genNotifyInEngine(e, target, notify);
}

// A matrix of NULL or "" is none.
static int go_install(transfer_engine_t e, const char *proto, char *matrix)
{
	void *args[] = { matrix, NULL };

	return installTransport(e, proto, matrix && *matrix ? args : NULL) ? 0 : TE_CODE_INVALID_ARGUMENT;
}

_Static_assert(sizeof(buffer_entry_t) == 16, "a layout that Go has too");
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// LocalSegment is our own.
const LocalSegment int64 = 0

// BufferEntry is a piece of memory.
type BufferEntry struct {
	Addr   uint64 // of another segment: where in it, for TargetOffset
	Length uint64 // bytes
}

// Notification is a message beside the data.
type Notification struct {
	Name, Msg string
}

var _ [16]byte = [unsafe.Sizeof(BufferEntry{})]byte{}

// TransferEngine is a member of the cluster: one segment of ours, and the way to those of others.
type TransferEngine struct {
	// A checked handle, not an address. Atomic, since Close may meet other calls.
	handle atomic.Uintptr
}

func (engine *TransferEngine) c() C.transfer_engine_t {
	h := engine.handle.Load()
	return *(*C.transfer_engine_t)(unsafe.Pointer(&h))
}

func open(conn, name string, autoDiscover C.int) (*TransferEngine, error) {
	cConn, cName, cIP := C.CString(conn), C.CString(name), C.CString("")
	defer C.free(unsafe.Pointer(cConn))
	defer C.free(unsafe.Pointer(cName))
	defer C.free(unsafe.Pointer(cIP))
	h := C.createTransferEngine(cConn, cName, cIP, 0, autoDiscover)
	if h == nil {
		return nil, &Error{"createTransferEngine", name, Context}
	}
	engine := &TransferEngine{}
	engine.handle.Store(uintptr(h))
	return engine, nil
}

// NewTransferEngine joins the cluster as segment localServerName ("": the host name; a port in it is the RPC port) by a metadata
// store: "etcd://H:P", "redis://H:P", "http://H:P/metadata", "H:P" (etcd), "P2PHANDSHAKE" for none, "" for MC_METADATA_SERVER. It
// serves by tcp until InstallTransport says more. Open finds that out itself.
func NewTransferEngine(metadataConnString, localServerName string) (*TransferEngine, error) {
	return open(metadataConnString, localServerName, 0)
}

// Open is NewTransferEngine that looks for NICs, and serves by rdma where there are any, else by tcp.
func Open(metadataConnString, localServerName string) (*TransferEngine, error) {
	return open(metadataConnString, localServerName, 1)
}

// Close cancels what is in flight and takes our entries out of the store. Registered memory is free then. Once more does nothing.
func (engine *TransferEngine) Close() {
	if h := engine.handle.Swap(0); h != 0 {
		C.destroyTransferEngine(*(*C.transfer_engine_t)(unsafe.Pointer(&h)))
	}
}

// InstallTransport serves by "tcp" or "rdma" ("nvmeof", "local" and "shm" are always there). topologyMatrix: the priority matrix as
// JSON, "" for the host's own. Before the first OpenSegment and AllocateBatchID only, where it changes anything.
func (engine *TransferEngine) InstallTransport(protocol, topologyMatrix string) error {
	cProtocol, cMatrix := C.CString(protocol), C.CString(topologyMatrix)
	defer C.free(unsafe.Pointer(cProtocol))
	defer C.free(unsafe.Pointer(cMatrix))
	return check(int(C.go_install(engine.c(), cProtocol, cMatrix)), "installTransport", protocol)
}

// UninstallTransport is nil for a transport that exists, though it stays.
func (engine *TransferEngine) UninstallTransport(protocol string) error {
	cProtocol := C.CString(protocol)
	defer C.free(unsafe.Pointer(cProtocol))
	return check(int(C.uninstallTransport(engine.c(), cProtocol)), "uninstallTransport", protocol)
}

// GetLocalIPAndPort is where peers reach us, "10.0.0.1:15017"; in P2P that is the segment's name.
func (engine *TransferEngine) GetLocalIPAndPort() (string, error) {
	var where [320]C.char
	r := C.getLocalIpAndPort(engine.c(), &where[0], C.size_t(len(where)))
	return C.GoString(&where[0]), check(int(r), "getLocalIpAndPort", "")
}

// EnableGracefulShutdown takes the engine's entries out of the store on SIGINT and SIGTERM, which end the process with 128 + their
// number. Both signals are then no longer Go's: os/signal does not see them.
func (engine *TransferEngine) EnableGracefulShutdown() {
	C.enableGracefulShutdown(engine.c())
}

// RegisterLocalMemory lets transfers use length bytes at addr, which may not be Go's memory: see Alloc. location: the device it is
// near ("cpu:0", "cuda:1"), "*": found out. Peers can reach it.
func (engine *TransferEngine) RegisterLocalMemory(addr uintptr, length uint64, location string) error {
	return engine.register(addr, length, location, 1)
}

// RegisterSource is RegisterLocalMemory for memory that no peer can reach.
func (engine *TransferEngine) RegisterSource(addr uintptr, length uint64, location string) error {
	return engine.register(addr, length, location, 0)
}

func (engine *TransferEngine) register(addr uintptr, length uint64, location string, remote C.int) error {
	cLocation := C.CString(location)
	defer C.free(unsafe.Pointer(cLocation))
	r := C.go_register(engine.c(), C.uintptr_t(addr), C.size_t(length), cLocation, remote)
	return check(int(r), "registerLocalMemory", "")
}

// UnregisterLocalMemory ends it; addr is the start that was registered. Waits up to 5 s for transfers that use the memory, then
// BatchBusy. After nil nobody touches the memory.
func (engine *TransferEngine) UnregisterLocalMemory(addr uintptr) error {
	return check(int(C.go_unregister(engine.c(), C.uintptr_t(addr))), "unregisterLocalMemory", "")
}

// RegisterLocalMemoryBatch registers all of them or none, published at once.
func (engine *TransferEngine) RegisterLocalMemoryBatch(buffers []BufferEntry, location string) error {
	if len(buffers) == 0 {
		return nil
	}
	cLocation := C.CString(location)
	defer C.free(unsafe.Pointer(cLocation))
	r := C.go_register_batch(engine.c(), unsafe.Pointer(&buffers[0]), C.size_t(len(buffers)), cLocation)
	return check(int(r), "registerLocalMemoryBatch", "")
}

// UnregisterLocalMemoryBatch unregisters all of them or none.
func (engine *TransferEngine) UnregisterLocalMemoryBatch(addrs []uintptr) error {
	if len(addrs) == 0 {
		return nil
	}
	r := C.go_unregister_batch(engine.c(), unsafe.Pointer(&addrs[0]), C.size_t(len(addrs)))
	return check(int(r), "unregisterLocalMemoryBatch", "")
}

// OpenSegment is the segment that a peer serves under this name; LocalSegment for our own. Counted: close as often as opened.
// useCache false: what is known about it is fetched again.
func (engine *TransferEngine) OpenSegment(segmentName string, useCache bool) (int64, error) {
	cName := C.CString(segmentName)
	defer C.free(unsafe.Pointer(cName))
	var id C.segment_id_t
	if useCache {
		id = C.openSegment(engine.c(), cName)
	} else {
		id = C.openSegmentNoCache(engine.c(), cName)
	}
	if id < 0 {
		return -1, check(int(id), "openSegment", segmentName)
	}
	return int64(id), nil
}

// id32 makes sure that a wide id does not become another one.
func id32(id int64) C.segment_id_t {
	if int64(int32(id)) != id {
		return -1
	}
	return C.segment_id_t(id)
}

// CloseSegment waits for transfers in flight to it.
func (engine *TransferEngine) CloseSegment(segmentID int64) error {
	return check(int(C.closeSegment(engine.c(), id32(segmentID))), "closeSegment", "")
}

// SegmentBuffers is where an open segment lets peers read and write, in its own order.
func (engine *TransferEngine) SegmentBuffers(segmentID int64) ([]BufferEntry, error) {
	var list []BufferEntry
	for max := 16; ; max *= 2 {
		list = make([]BufferEntry, max)
		n := int(C.go_segment_buffers(engine.c(), id32(segmentID), unsafe.Pointer(&list[0]), C.size_t(max)))
		if n < 0 {
			return nil, check(n, "getSegmentBuffers", "")
		}
		if n <= max {
			return list[:n], nil
		}
		max = n
	}
}

// SyncSegmentCache fetches what is known about all open segments again. Never needed: it happens by itself.
func (engine *TransferEngine) SyncSegmentCache() error {
	return check(int(C.syncSegmentCache(engine.c())), "syncSegmentCache", "")
}

// SendNotify sends a message to the owner of a segment, and returns once that has it.
func (engine *TransferEngine) SendNotify(segmentID int64, n Notification) error {
	cName, cMsg := C.CString(n.Name), C.CString(n.Msg)
	defer C.free(unsafe.Pointer(cName))
	defer C.free(unsafe.Pointer(cMsg))
	return check(int(C.go_notify(engine.c(), C.uint64_t(segmentID), cName, cMsg)), "genNotifyInEngine", "")
}

// Notifications are all that have arrived since the last call.
func (engine *TransferEngine) Notifications() []Notification {
	var n C.int
	list := C.getNotifsFromEngine(engine.c(), &n)
	if list == nil {
		return nil
	}
	defer C.freeNotifsMsgBuf(list, n)
	got := make([]Notification, 0, int(n))
	for _, m := range unsafe.Slice(list, int(n)) {
		got = append(got, Notification{C.GoString(m.name), C.GoString(m.msg)})
	}
	return got
}
