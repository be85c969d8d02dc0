package transferengine

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// Buffer is memory that Go's collector neither moves nor frees, for RegisterLocalMemory: zeroed, its start on a page.
type Buffer struct {
	mem []byte
}

// Alloc maps a Buffer of size bytes. It stays until Free.
func Alloc(size int) (*Buffer, error) {
	if size <= 0 {
		return nil, fmt.Errorf("buffer of %d bytes: %w", size, os.ErrInvalid)
	}
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("buffer of %d bytes: %w", size, err)
	}
	return &Buffer{mem}, nil
}

// Addr is where it starts; 0 after Free.
func (b *Buffer) Addr() uintptr {
	if len(b.mem) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&b.mem[0]))
}

// Len is its size in bytes; 0 after Free.
func (b *Buffer) Len() int { return len(b.mem) }

// Bytes is the memory itself: not to be used after Free.
func (b *Buffer) Bytes() []byte { return b.mem }

// Free gives it back. Unregister it first.
func (b *Buffer) Free() error {
	mem := b.mem
	b.mem = nil
	if mem == nil {
		return nil
	}
	return syscall.Munmap(mem)
}
