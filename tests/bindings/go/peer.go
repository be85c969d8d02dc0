// Command peer is tests/bindings/c/peer.c in Go: it moves verified data to and from whoever serves a segment of 1 MiB.
//
//	peer target CONN NAME             serve 1 MiB, print "ready SEGMENT ADDRESS"; at the end of standard input see what it holds
//	peer initiator CONN NAME SEGMENT  WRITE the pattern there, READ it back, compare
package main

import (
	"fmt"
	"io"
	"os"

	te "transferengine"
)

const size, block = 1 << 20, 1 << 16

func pattern(i int) byte { return byte(i*31 + i/251) }

func checkPattern(p []byte) error {
	for i := range p {
		if p[i] != pattern(i) {
			return fmt.Errorf("wrong byte at %d", i)
		}
	}
	return nil
}

func move(engine *te.TransferEngine, opcode int, buf *te.Buffer, segment int64, base uint64) error {
	var requests []te.TransferRequest
	for at := uint64(0); at < size; at += block {
		requests = append(requests, te.TransferRequest{Opcode: opcode, Source: uint64(buf.Addr()) + at, TargetID: segment,
			TargetOffset: base + at, Length: block})
	}
	batch, err := engine.AllocateBatchID(len(requests))
	if err != nil {
		return err
	}
	if err = engine.SubmitTransfer(batch, requests); err != nil {
		return err
	}
	if err = engine.Wait(batch, len(requests)); err != nil {
		return err
	}
	return engine.FreeBatchID(batch)
}

func buffer(engine *te.TransferEngine) (*te.Buffer, error) {
	buf, err := te.Alloc(size)
	if err != nil {
		return nil, err
	}
	return buf, engine.RegisterLocalMemory(buf.Addr(), size, "*")
}

func initiator(engine *te.TransferEngine, name string) error {
	mine, err := buffer(engine)
	if err != nil {
		return err
	}
	back, err := buffer(engine)
	if err != nil {
		return err
	}
	segment, err := engine.OpenSegment(name, true)
	if err != nil {
		return err
	}
	there, err := engine.SegmentBuffers(segment)
	if err != nil {
		return err
	}
	for i := range mine.Bytes() {
		mine.Bytes()[i] = pattern(i)
	}
	if err = move(engine, te.OPCODE_WRITE, mine, segment, there[0].Addr); err != nil {
		return err
	}
	if err = move(engine, te.OPCODE_READ, back, segment, there[0].Addr); err != nil {
		return err
	}
	fmt.Println("moved 1 MiB and back")
	return checkPattern(back.Bytes())
}

func target(engine *te.TransferEngine, conn, name string) error {
	buf, err := buffer(engine)
	if err != nil {
		return err
	}
	if conn == "P2PHANDSHAKE" {
		if name, err = engine.GetLocalIPAndPort(); err != nil {
			return err
		}
	}
	fmt.Printf("ready %s 0x%x\n", name, buf.Addr())
	io.Copy(io.Discard, os.Stdin)
	if err = engine.UnregisterLocalMemory(buf.Addr()); err != nil {
		return err
	}
	return checkPattern(buf.Bytes())
}

func run(args []string) error {
	engine, err := te.Open(args[2], args[3])
	if err != nil {
		return err
	}
	defer engine.Close()
	if args[1] == "target" {
		return target(engine, args[2], args[3])
	}
	return initiator(engine, args[4])
}

func main() {
	if len(os.Args) < 4 || os.Args[1] != "target" && len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "Usage: peer target|initiator CONN NAME [SEGMENT]")
		os.Exit(2)
	}
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}
