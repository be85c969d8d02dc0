package transferengine

import (
	"errors"
	"fmt"
)

// ErrTransferEngine is what errors.Is finds in every error of this package.
var ErrTransferEngine = errors.New("transfer engine")

// Code says what went wrong. errors.Is(err, BatchBusy) and so on look for it. The sentence about it is in the log of the engine
// (MC_LOG_LEVEL).
type Code int

// The codes of Mooncake's error.h.
const (
	InvalidArgument      Code = -1 // an unknown id or handle, a length that wraps
	TooManyRequests      Code = -2 // beyond what the batch was allocated for
	AddressNotRegistered Code = -3
	BatchBusy            Code = -4 // something of it is in flight
	DeviceNotFound       Code = -6
	AddressOverlapped    Code = -7 // it is registered already, or a part of it
	DNS                  Code = -101
	Socket               Code = -102
	MalformedJSON        Code = -103
	RejectHandshake      Code = -104
	Metadata             Code = -200 // the store has no such segment, or cannot be reached
	Endpoint             Code = -201 // anything else that failed on the way
	Context              Code = -202
	Timeout              Code = -203
	NUMA                 Code = -300
	Clock                Code = -301
	Memory               Code = -302
	NotImplemented       Code = -303
)

var codeNames = map[Code]string{
	InvalidArgument: "invalid argument", TooManyRequests: "too many requests",
	AddressNotRegistered: "address not registered", BatchBusy: "batch busy", DeviceNotFound: "device not found",
	AddressOverlapped: "address overlaps a registered buffer", DNS: "unknown host", Socket: "socket",
	MalformedJSON: "malformed JSON", RejectHandshake: "handshake refused", Metadata: "metadata", Endpoint: "endpoint",
	Context: "cannot open", Timeout: "timed out", NUMA: "NUMA", Clock: "clock", Memory: "out of memory",
	NotImplemented: "not implemented",
}

// Error is the code in words.
func (c Code) Error() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("code %d", int(c))
}

// Error is what every failed call returns.
type Error struct {
	Call string // the method's C name, "openSegment"
	Name string // what it was about: a segment, a protocol; may be empty
	Code Code
}

// Error names the call, what it was about, and the code.
func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s: %s (%d)", e.Call, e.Code.Error(), int(e.Code))
	}
	return fmt.Sprintf("%s '%s': %s (%d)", e.Call, e.Name, e.Code.Error(), int(e.Code))
}

// Unwrap makes the code found by errors.Is.
func (e *Error) Unwrap() error { return e.Code }

// Is makes ErrTransferEngine found by errors.Is.
func (e *Error) Is(target error) bool { return target == ErrTransferEngine }

// TransferError is a request that has ended other than completed.
type TransferError struct {
	Task   int // its place in the batch
	Status int // STATUS_INVALID, STATUS_CANCELED, STATUS_TIMEOUT, STATUS_FAILED
}

var statusNames = map[int]string{
	STATUS_INVALID: "its range is in no buffer of the target", STATUS_CANCELED: "canceled", STATUS_TIMEOUT: "timed out",
	STATUS_FAILED: "failed",
}

// Error names the request and how it ended.
func (e *TransferError) Error() string {
	name, ok := statusNames[e.Status]
	if !ok {
		name = fmt.Sprintf("status %d", e.Status)
	}
	return fmt.Sprintf("request %d: %s", e.Task, name)
}

// Is makes ErrTransferEngine found by errors.Is.
func (e *TransferError) Is(target error) bool { return target == ErrTransferEngine }

func check(r int, call, name string) error {
	if r >= 0 {
		return nil
	}
	return &Error{call, name, Code(r)}
}
