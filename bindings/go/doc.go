// Package transferengine moves bytes between segments: memory or files, here or on other hosts. It is libte under the names
// that Mooncake's Transfer Engine has in Go, by cgo over libtransfer_engine.
//
// # Building
//
// In a tree of te, run make, then import the package by a replace line in go.mod:
//
//	require transferengine v0.0.0
//	replace transferengine => /path/to/te/bindings/go
//
// The header is then that of the tree, and the library the one in its build folder. With what make install has left, build with
// -tags te_installed: pkg-config says where things are (PKG_CONFIG_PATH). CGO_CFLAGS and CGO_LDFLAGS come before both.
//
// # Memory
//
// An engine works on registered memory long after the call that told it to, so that memory may not be Go's: take a Buffer from
// Alloc, or memory of C or of mmap. Addresses are uintptr, lengths are bytes. Registered memory must live until it is
// unregistered.
//
// # Use
//
//	engine, err := transferengine.Open("http://10.0.0.1:8080/metadata", "node1")
//	buf, err := transferengine.Alloc(1 << 20)
//	err = engine.RegisterLocalMemory(buf.Addr(), uint64(buf.Len()), "*")
//	segment, err := engine.OpenSegment("node2", true)
//	there, err := engine.SegmentBuffers(segment)
//	err = engine.Transfer([]transferengine.TransferRequest{{
//		Opcode: transferengine.OPCODE_READ, Source: uint64(buf.Addr()),
//		TargetID: segment, TargetOffset: there[0].Addr, Length: there[0].Length,
//	}})
//
// All methods may be called by several goroutines at once. After Close they give errors.
package transferengine
