package transferengine

/*
#include <stdlib.h>
#include "transfer_engine_c.h"

static int go_submit(transfer_engine_t e, batch_id_t batch, void *requests, size_t n)
{
	return submitTransfer(e, batch, (struct transfer_request *)requests, n);
}

static int go_submit_notify(transfer_engine_t e, batch_id_t batch, void *requests, size_t n, char *name, char *msg)
{
	notify_msg_t notify = { name, msg };

	return submitTransferWithNotify(e, batch, (struct transfer_request *)requests, n, notify);
}

_Static_assert(sizeof(struct transfer_request) == 40, "a layout that Go has too");
*/
import "C"

import (
	"errors"
	"runtime"
	"time"
	"unsafe"
)

// Opcodes and states, as Mooncake has them in Go.
const (
	OPCODE_READ  = 0 // from the target to the source address
	OPCODE_WRITE = 1 // from the source address to the target

	STATUS_WAITING   = 0 // in flight
	STATUS_PENDING   = 1 // never seen
	STATUS_INVALID   = 2 // the target range is in no buffer there
	STATUS_CANCELED  = 3
	STATUS_COMPLETED = 4 // of a WRITE: the bytes are in the target's memory
	STATUS_TIMEOUT   = 5
	STATUS_FAILED    = 6
)

// BatchID names a batch of requests. Stale and invented ones give errors.
type BatchID int64

// TransferRequest is one transfer.
type TransferRequest struct {
	Opcode       int    // OPCODE_READ, OPCODE_WRITE
	Source       uint64 // local address, of both; inside one registered buffer
	TargetID     int64  // of OpenSegment
	TargetOffset uint64 // an address in a RAM segment, an offset in a segment of files
	Length       uint64 // bytes
}

// request is struct transfer_request, without pointers that Go would follow.
type request struct {
	opcode       int32
	_            int32
	source       uint64
	targetID     int32
	_            int32
	targetOffset uint64
	length       uint64
}

var _ [40]byte = [unsafe.Sizeof(request{})]byte{}

// AllocateBatchID makes room for batchSize requests (1 to 1<<24).
func (engine *TransferEngine) AllocateBatchID(batchSize int) (BatchID, error) {
	if batchSize < 0 {
		return -1, &Error{"allocateBatchID", "", InvalidArgument}
	}
	id := C.allocateBatchID(engine.c(), C.size_t(batchSize))
	if id == C.INVALID_BATCH {
		return -1, &Error{"allocateBatchID", "", InvalidArgument}
	}
	return BatchID(id), nil
}

func pack(requests []TransferRequest) []request {
	list := make([]request, len(requests))
	for i, r := range requests {
		list[i] = request{opcode: int32(r.Opcode), source: r.Source, targetID: int32(id32(r.TargetID)),
			targetOffset: r.TargetOffset, length: r.Length}
	}
	return list
}

// SubmitTransfer starts all of the requests, or none. It never waits for the network. Again until the batch is full.
func (engine *TransferEngine) SubmitTransfer(batchID BatchID, requests []TransferRequest) error {
	if len(requests) == 0 {
		return nil
	}
	list := pack(requests)
	r := C.go_submit(engine.c(), C.batch_id_t(batchID), unsafe.Pointer(&list[0]), C.size_t(len(list)))
	return check(int(r), "submitTransfer", "")
}

// SubmitTransferWithNotify is SubmitTransfer; once all of the batch has completed, n goes to the target of the first request.
func (engine *TransferEngine) SubmitTransferWithNotify(batchID BatchID, requests []TransferRequest, n Notification) error {
	if len(requests) == 0 {
		return &Error{"submitTransferWithNotify", "", InvalidArgument}
	}
	cName, cMsg := C.CString(n.Name), C.CString(n.Msg)
	defer C.free(unsafe.Pointer(cName))
	defer C.free(unsafe.Pointer(cMsg))
	list := pack(requests)
	r := C.go_submit_notify(engine.c(), C.batch_id_t(batchID), unsafe.Pointer(&list[0]), C.size_t(len(list)), cName, cMsg)
	return check(int(r), "submitTransferWithNotify", "")
}

// GetTransferStatus is how far a request of the batch is: STATUS_*, and the bytes transferred, a lower bound.
func (engine *TransferEngine) GetTransferStatus(batchID BatchID, taskID int) (int, uint64, error) {
	var status C.transfer_status_t
	r := C.getTransferStatus(engine.c(), C.batch_id_t(batchID), C.size_t(taskID), &status)
	if r != 0 {
		return -1, 0, check(int(r), "getTransferStatus", "")
	}
	return int(status.status), uint64(status.transferred_bytes), nil
}

// FreeBatchID is BatchBusy while any of its requests is in flight, and only then.
func (engine *TransferEngine) FreeBatchID(batchID BatchID) error {
	return check(int(C.freeBatchID(engine.c(), C.batch_id_t(batchID))), "freeBatchID", "")
}

// Wait returns when the first n requests of the batch have ended, which the engine's time-outs see to: nil when all have
// completed, else a *TransferError for the first that has not.
func (engine *TransferEngine) Wait(batchID BatchID, n int) error {
	var failed error
	for task := 0; task < n; task++ {
		status, err := engine.waitTask(batchID, task)
		if err != nil {
			return err
		}
		if status != STATUS_COMPLETED && failed == nil {
			failed = &TransferError{task, status}
		}
	}
	return failed
}

func (engine *TransferEngine) waitTask(batchID BatchID, task int) (int, error) {
	for pause := time.Duration(0); ; {
		status, _, err := engine.GetTransferStatus(batchID, task)
		if err != nil || status != STATUS_WAITING {
			return status, err
		}
		// What is short is over before a sleep would be.
		if pause < 20*time.Microsecond {
			pause += 200 * time.Nanosecond
			runtime.Gosched()
		} else {
			time.Sleep(pause)
			if pause < time.Millisecond {
				pause *= 2
			}
		}
	}
}

// Transfer submits the requests as a batch of their own and waits for them.
func (engine *TransferEngine) Transfer(requests []TransferRequest) error {
	if len(requests) == 0 {
		return nil
	}
	batchID, err := engine.AllocateBatchID(len(requests))
	if err != nil {
		return err
	}
	err = engine.SubmitTransfer(batchID, requests)
	if err == nil {
		err = engine.Wait(batchID, len(requests))
	}
	// It is busy a moment longer where a request has failed while a transport still had its memory.
	for engine.freeAgain(batchID) {
		time.Sleep(time.Millisecond)
	}
	return err
}

func (engine *TransferEngine) freeAgain(batchID BatchID) bool {
	return errors.Is(engine.FreeBatchID(batchID), BatchBusy)
}
