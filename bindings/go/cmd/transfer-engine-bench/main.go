// Command transfer-engine-bench is Mooncake's bench sample in Go: it reads or writes blocks of a target's memory over and over, and
// says how fast. Its flags are those of transfer_engine_bench ("--x=v", "--x v", "--nox"; dashes or underscores).
//
//	transfer-engine-bench --mode=target --metadata_server=http://10.0.0.1:8080/metadata --local_server_name=node2 --protocol=tcp
//	transfer-engine-bench --segment_id=node2 --metadata_server=http://10.0.0.1:8080/metadata --protocol=tcp
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	te "transferengine"
)

type config struct {
	mode, metadataServer, localServerName, protocol, deviceName, matrixFile string
	segmentID, operation, reportUnit                                        string
	bufferSize, blockSize                                                   uint64
	batchSize, threads, reportPrecision                                     int
	duration                                                                float64
	targetBase                                                              uint64
	autoDiscovery                                                           bool
}

func (c *config) flags(name string) *flag.FlagSet {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.StringVar(&c.mode, "mode", "initiator", "initiator or target")
	f.StringVar(&c.metadataServer, "metadata_server", "192.168.3.77:2379", "metadata store, or P2PHANDSHAKE")
	f.StringVar(&c.localServerName, "local_server_name", host, "our segment's name")
	f.StringVar(&c.protocol, "protocol", "rdma", "rdma or tcp")
	f.StringVar(&c.deviceName, "device_name", "mlx5_2", "NICs, comma list")
	f.StringVar(&c.matrixFile, "nic_priority_matrix", "", "file of a priority matrix; else all NICs are preferred")
	f.BoolVar(&c.autoDiscovery, "auto_discovery", false, "find the NICs")
	f.StringVar(&c.segmentID, "segment_id", "192.168.3.76", "the target's segment")
	f.StringVar(&c.operation, "operation", "read", "read or write")
	f.Uint64Var(&c.bufferSize, "buffer_size", 1<<30, "bytes of memory")
	f.IntVar(&c.batchSize, "batch_size", 128, "requests a batch")
	f.Uint64Var(&c.blockSize, "block_size", 65536, "bytes a request")
	f.Float64Var(&c.duration, "duration", 10, "seconds")
	f.IntVar(&c.threads, "threads", 12, "goroutines that submit")
	f.StringVar(&c.reportUnit, "report_unit", "GB", "GB, GiB, Gb, MB, MiB, Mb, KB, KiB or Kb, a second")
	f.IntVar(&c.reportPrecision, "report_precision", 2, "digits behind the point")
	f.Uint64Var(&c.targetBase, "target_base", 0, "address in the target; 0: its buffers are asked for")
	return f
}

// gflags makes --a-b=v and --nox what package flag knows.
func gflags(f *flag.FlagSet, args []string) []string {
	out := make([]string, 0, len(args))
	for _, arg := range args {
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		name = strings.ReplaceAll(name, "-", "_")
		bare := strings.TrimPrefix(name, "no")
		switch {
		case !strings.HasPrefix(arg, "-"):
			out = append(out, arg)
		case hasValue:
			out = append(out, "--"+name+"="+value)
		case f.Lookup(name) == nil && bare != name && f.Lookup(bare) != nil:
			out = append(out, "--"+bare+"=false")
		default:
			out = append(out, "--"+name)
		}
	}
	return out
}

func (c *config) parse(args []string) error {
	f := c.flags(args[0])
	if err := f.Parse(gflags(f, args[1:])); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unknown argument '%s'", f.Arg(0))
	case c.mode != "initiator" && c.mode != "target":
		return fmt.Errorf("--mode=%s: initiator or target", c.mode)
	case c.operation != "read" && c.operation != "write":
		return fmt.Errorf("--operation=%s: read or write", c.operation)
	case c.batchSize < 1 || c.threads < 1 || c.blockSize < 1 || c.duration <= 0:
		return errors.New("--batch_size, --threads, --block_size and --duration must be more than 0")
	}
	if need := c.blockSize * uint64(c.batchSize) * uint64(c.threads); c.bufferSize < need {
		fmt.Fprintf(os.Stderr, "buffer size raised to %d bytes\n", need)
		c.bufferSize = need
	}
	return nil
}

// matrix is the priority matrix that the flags ask for; "": the host's own.
func (c *config) matrix() (string, error) {
	if c.protocol == "tcp" || c.autoDiscovery {
		return "", nil
	}
	if c.matrixFile != "" {
		text, err := os.ReadFile(c.matrixFile)
		return string(text), err
	}
	nics := [2][]string{strings.Split(c.deviceName, ","), {}}
	text, err := json.Marshal(map[string][2][]string{"cpu:0": nics, "cpu:1": nics, "cuda:0": nics})
	return string(text), err
}

// open joins the cluster, with c.bufferSize of registered memory.
func (c *config) open() (*te.TransferEngine, *te.Buffer, error) {
	matrix, err := c.matrix()
	if err != nil {
		return nil, nil, err
	}
	buf, err := te.Alloc(int(c.bufferSize))
	if err != nil {
		return nil, nil, err
	}
	engine, err := te.NewTransferEngine(c.metadataServer, c.localServerName)
	if err != nil {
		return nil, nil, err
	}
	if err = engine.InstallTransport(c.protocol, matrix); err == nil {
		err = engine.RegisterLocalMemory(buf.Addr(), c.bufferSize, "*")
	}
	if err != nil {
		engine.Close()
		return nil, nil, err
	}
	return engine, buf, nil
}

func target(c *config) error {
	engine, buf, err := c.open()
	if err != nil {
		return err
	}
	defer engine.Close()
	where, err := engine.GetLocalIPAndPort()
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	fmt.Printf("target %s at %s, %d bytes at 0x%x\n", c.localServerName, where, c.bufferSize, buf.Addr())
	<-stop
	return nil
}

// bench is what the threads of an initiator share.
type bench struct {
	*config
	engine  *te.TransferEngine
	buf     *te.Buffer
	segment int64
	there   []te.BufferEntry
	batches atomic.Uint64
	stopped atomic.Bool
}

func (b *bench) look() error {
	need := b.blockSize * uint64(b.batchSize) * uint64(b.threads)
	if b.targetBase != 0 {
		b.there = []te.BufferEntry{{Addr: b.targetBase, Length: need}}
		return nil
	}
	var err error
	if b.there, err = b.engine.SegmentBuffers(b.segment); err != nil {
		return err
	}
	if len(b.there) == 0 {
		return fmt.Errorf("segment '%s' has no buffer", b.segmentID)
	}
	for _, there := range b.there {
		if there.Length < need {
			return fmt.Errorf("segment '%s' has a buffer of %d bytes, which is less than block size x batch size x threads", b.segmentID, there.Length)
		}
	}
	return nil
}

// requests of one thread: the same in each batch.
func (b *bench) requests(thread int) []te.TransferRequest {
	opcode := te.OPCODE_READ
	if b.operation == "write" {
		opcode = te.OPCODE_WRITE
	}
	list := make([]te.TransferRequest, b.batchSize)
	for i := range list {
		at := b.blockSize * uint64(i*b.threads+thread)
		list[i] = te.TransferRequest{Opcode: opcode, Source: uint64(b.buf.Addr()) + at, TargetID: b.segment,
			TargetOffset: b.there[thread%len(b.there)].Addr + at, Length: b.blockSize}
	}
	return list
}

func (b *bench) work(thread int) error {
	requests := b.requests(thread)
	for !b.stopped.Load() {
		if err := b.engine.Transfer(requests); err != nil {
			b.stopped.Store(true)
			return err
		}
		b.batches.Add(1)
	}
	return nil
}

// run lets all threads work for the duration: how long it was, and the first error.
func (b *bench) run() (float64, error) {
	var wg sync.WaitGroup
	errs := make(chan error, b.threads)
	start := time.Now()
	for t := 0; t < b.threads; t++ {
		wg.Add(1)
		go func(t int) {
			defer wg.Done()
			if err := b.work(t); err != nil {
				errs <- err
			}
		}(t)
	}
	over := time.AfterFunc(time.Duration(b.duration*float64(time.Second)), func() { b.stopped.Store(true) })
	wg.Wait()
	over.Stop()
	select {
	case err := <-errs:
		return 0, err
	default:
		return time.Since(start).Seconds(), nil
	}
}

var units = map[string]float64{"GB": 1e9, "GiB": 1 << 30, "Gb": 1e9 / 8, "MB": 1e6, "MiB": 1 << 20, "Mb": 1e6 / 8,
	"KB": 1e3, "KiB": 1 << 10, "Kb": 1e3 / 8}

func (b *bench) report(seconds float64) {
	unit, ok := units[b.reportUnit]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown unit '%s', GB is used\n", b.reportUnit)
		b.reportUnit, unit = "GB", units["GB"]
	}
	bytes := float64(b.batches.Load()) * float64(b.batchSize) * float64(b.blockSize)
	fmt.Printf("Test completed: duration %.2f, batch count %d, throughput %.*f %s/s\n", seconds, b.batches.Load(),
		b.reportPrecision, bytes/seconds/unit, b.reportUnit)
}

func initiator(c *config) error {
	engine, buf, err := c.open()
	if err != nil {
		return err
	}
	defer engine.Close()
	b := &bench{config: c, engine: engine, buf: buf}
	if b.segment, err = engine.OpenSegment(c.segmentID, true); err != nil {
		return err
	}
	if err = b.look(); err != nil {
		return err
	}
	seconds, err := b.run()
	if err != nil {
		return err
	}
	b.report(seconds)
	return nil
}

func main() {
	var c config
	err := c.parse(os.Args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err == nil && c.mode == "target":
		err = target(&c)
	case err == nil:
		err = initiator(&c)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "transfer-engine-bench: %v\n", err)
		os.Exit(1)
	}
}
