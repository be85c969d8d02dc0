package transferengine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const size = 1 << 20

// conn is the store of the tests: TE_TEST_CONN, P2P without it.
func conn() string {
	if c := os.Getenv("TE_TEST_CONN"); c != "" {
		return c
	}
	return "P2PHANDSHAKE"
}

// engine opens one that is closed with the test, and says what its segment is called.
func engine(t *testing.T, wish string) (*TransferEngine, string) {
	t.Helper()
	name := fmt.Sprintf("go-%s-%d", wish, os.Getpid())
	if conn() == "P2PHANDSHAKE" {
		name = "127.0.0.1"
	}
	e, err := NewTransferEngine(conn(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if conn() == "P2PHANDSHAKE" {
		if name, err = e.GetLocalIPAndPort(); err != nil {
			t.Fatal(err)
		}
	}
	return e, name
}

func memory(t *testing.T, e *TransferEngine, n int) *Buffer {
	t.Helper()
	b, err := Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	if err = e.RegisterLocalMemory(b.Addr(), uint64(n), "*"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		b.Free()
	})
	return b
}

func segment(t *testing.T, e *TransferEngine, name string) (int64, BufferEntry) {
	t.Helper()
	id, err := e.OpenSegment(name, true)
	if err != nil {
		t.Fatal(err)
	}
	there, err := e.SegmentBuffers(id)
	if err != nil || len(there) == 0 {
		t.Fatal("no buffers: ", err)
	}
	return id, there[0]
}

func want(t *testing.T, err, is error) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Errorf("%v, not %v", err, is)
	}
	if err != nil && !errors.Is(err, ErrTransferEngine) {
		t.Errorf("%v is no ErrTransferEngine", err)
	}
}

// there and back, in blocks, every byte compared.
func roundTrip(t *testing.T, e *TransferEngine, buf *Buffer, id int64, there BufferEntry) {
	t.Helper()
	half := uint64(buf.Len() / 2)
	random := make([]byte, half)
	rand.New(rand.NewSource(time.Now().UnixNano())).Read(random)
	copy(buf.Bytes(), random)
	move := func(opcode int, source uint64) []TransferRequest {
		var list []TransferRequest
		for at := uint64(0); at < half; at += half / 8 {
			list = append(list, TransferRequest{opcode, source + at, id, there.Addr + at, half / 8})
		}
		return list
	}
	if err := e.Transfer(move(OPCODE_WRITE, uint64(buf.Addr()))); err != nil {
		t.Fatal(err)
	}
	if err := e.Transfer(move(OPCODE_READ, uint64(buf.Addr())+half)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf.Bytes()[half:], random) {
		t.Fatal("wrong bytes")
	}
}

func TestTwoEngines(t *testing.T) {
	a, _ := engine(t, "a")
	b, bName := engine(t, "b")
	mine, theirs := memory(t, a, size), memory(t, b, size)
	id, there := segment(t, a, bName)
	if there.Addr != uint64(theirs.Addr()) || there.Length != size {
		t.Errorf("the buffer is %+v", there)
	}
	roundTrip(t, a, mine, id, there)
	if !bytes.Equal(theirs.Bytes()[:size/2], mine.Bytes()[:size/2]) {
		t.Error("the target has other bytes")
	}
	want(t, a.SyncSegmentCache(), nil)
	want(t, a.CloseSegment(id), nil)
	want(t, a.CloseSegment(id), InvalidArgument)
	want(t, a.CloseSegment(id+1<<32), InvalidArgument)
}

func TestBatch(t *testing.T) {
	a, _ := engine(t, "a")
	b, bName := engine(t, "b")
	mine := memory(t, a, size)
	memory(t, b, size)
	id, there := segment(t, a, bName)
	batch, err := a.AllocateBatchID(2)
	want(t, err, nil)
	good := TransferRequest{OPCODE_READ, uint64(mine.Addr()), id, there.Addr, 4096}
	bad := good
	bad.TargetOffset = 8
	want(t, a.SubmitTransfer(batch, []TransferRequest{good, bad}), nil)
	want(t, a.SubmitTransfer(batch, []TransferRequest{good}), TooManyRequests)
	var failed *TransferError
	if err = a.Wait(batch, 2); !errors.As(err, &failed) || failed.Task != 1 || failed.Status != STATUS_INVALID {
		t.Error("not what is wrong with request 1: ", err)
	}
	status, n, err := a.GetTransferStatus(batch, 0)
	if status != STATUS_COMPLETED || n != 4096 || err != nil {
		t.Error("request 0: ", status, n, err)
	}
	_, _, err = a.GetTransferStatus(batch, 2)
	want(t, err, InvalidArgument)
	want(t, a.FreeBatchID(batch), nil)
	want(t, a.FreeBatchID(batch), InvalidArgument)
	bad.Source = 4096
	want(t, a.Transfer([]TransferRequest{bad}), AddressNotRegistered)
	bad.TargetID = id + 1<<32
	want(t, a.Transfer([]TransferRequest{bad}), InvalidArgument)
	want(t, a.Transfer(nil), nil)
	_, err = a.AllocateBatchID(0)
	want(t, err, InvalidArgument)
}

func TestMemory(t *testing.T) {
	e, _ := engine(t, "a")
	b := memory(t, e, 64<<10)
	want(t, e.RegisterLocalMemory(b.Addr()+100, 10, "*"), AddressOverlapped)
	want(t, e.UnregisterLocalMemory(b.Addr()+100), AddressNotRegistered)
	want(t, e.UnregisterLocalMemory(b.Addr()), nil)
	list := []BufferEntry{{uint64(b.Addr()), 4096}, {uint64(b.Addr()) + 8192, 4096}}
	want(t, e.RegisterLocalMemoryBatch(list, "cpu:0"), nil)
	want(t, e.RegisterSource(b.Addr()+16384, 4096, "*"), nil)
	got, err := e.SegmentBuffers(LocalSegment)
	if err != nil || len(got) != 2 || got[0] != list[0] || got[1] != list[1] {
		t.Error("published: ", got, err)
	}
	want(t, e.UnregisterLocalMemoryBatch([]uintptr{b.Addr(), b.Addr() + 8192}), nil)
	want(t, e.RegisterLocalMemoryBatch(nil, "*"), nil)
	want(t, e.UnregisterLocalMemoryBatch(nil), nil)
	if _, err = Alloc(0); !errors.Is(err, os.ErrInvalid) {
		t.Error("a buffer of nothing: ", err)
	}
}

func TestNotifications(t *testing.T) {
	a, _ := engine(t, "a")
	b, bName := engine(t, "b")
	mine := memory(t, a, size)
	memory(t, b, size)
	id, there := segment(t, a, bName)
	want(t, a.SendNotify(id, Notification{"one", "1"}), nil)
	want(t, a.SendNotify(-1, Notification{"none", ""}), InvalidArgument)
	batch, err := a.AllocateBatchID(1)
	want(t, err, nil)
	requests := []TransferRequest{{OPCODE_WRITE, uint64(mine.Addr()), id, there.Addr, size}}
	want(t, a.SubmitTransferWithNotify(batch, requests, Notification{"two", "done"}), nil)
	want(t, a.SubmitTransferWithNotify(batch, nil, Notification{}), InvalidArgument)
	want(t, a.Wait(batch, 1), nil)
	var got []Notification
	for i := 0; i < 5000 && len(got) < 2; i++ {
		got = append(got, b.Notifications()...)
		time.Sleep(time.Millisecond)
	}
	if len(got) != 2 || got[0] != (Notification{"one", "1"}) || got[1] != (Notification{"two", "done"}) {
		t.Error("arrived: ", got)
	}
}

func TestManyGoroutines(t *testing.T) {
	a, _ := engine(t, "a")
	b, bName := engine(t, "b")
	mine, theirs := memory(t, a, size), memory(t, b, size)
	id, there := segment(t, a, bName)
	const n, piece = 16, size / 16
	var wg sync.WaitGroup
	for g := 0; g < n; g++ {
		wg.Add(1)
		go func(at uint64) {
			defer wg.Done()
			for i := 0; i < 50; i++ {
				copy(mine.Bytes()[at:at+piece], bytes.Repeat([]byte{byte(at/piece + uint64(i))}, piece))
				r := TransferRequest{OPCODE_WRITE, uint64(mine.Addr()) + at, id, there.Addr + at, piece}
				if err := a.Transfer([]TransferRequest{r}); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(mine.Bytes()[at:at+piece], theirs.Bytes()[at:at+piece]) {
					t.Error("wrong bytes")
				}
			}
		}(uint64(g * piece))
	}
	wg.Wait()
}

func TestClosedAndWrong(t *testing.T) {
	e, _ := engine(t, "a")
	_, err := e.OpenSegment("nobody-of-this-name", true)
	if err == nil || !strings.Contains(err.Error(), "'nobody-of-this-name'") {
		t.Error("an unknown segment: ", err)
	}
	_, err = e.OpenSegment("nobody-of-this-name", false)
	want(t, err, ErrTransferEngine)
	want(t, e.InstallTransport("tcp", ""), nil)
	want(t, e.UninstallTransport("tcp"), nil)
	want(t, e.InstallTransport("pigeon", ""), ErrTransferEngine)
	want(t, e.InstallTransport("rdma", "{ no matrix"), ErrTransferEngine)
	want(t, e.FreeBatchID(-1), InvalidArgument)
	e.Close()
	e.Close()
	_, err = e.OpenSegment("x", true)
	want(t, err, InvalidArgument)
	want(t, e.SyncSegmentCache(), InvalidArgument)
	if e.Notifications() != nil {
		t.Error("notifications of a closed engine")
	}
	_, err = Open("no://such.store", "x")
	want(t, err, Context)
}

// A te-target of the build beside us.
func TestTarget(t *testing.T) {
	ready := t.TempDir() + "/ready"
	args := []string{"--metadata-server=" + conn(), "--buffer-size=1M", "--ready-file=" + ready}
	name := "127.0.0.1"
	if conn() != "P2PHANDSHAKE" {
		name = fmt.Sprintf("go-target-%d", os.Getpid())
	}
	target := exec.Command(build()+"/te-target", append(args, "--local-server-name="+name)...)
	target.Stderr = os.Stderr
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		target.Process.Signal(os.Interrupt)
		if err := target.Wait(); err != nil {
			t.Error("te-target: ", err)
		}
	}()
	text := waitFile(t, ready)
	_, text, _ = strings.Cut(text, `"segment":`)
	name, _, _ = strings.Cut(strings.TrimLeft(text, ` "`), `"`)
	e, _ := engine(t, "a")
	buf := memory(t, e, size)
	id, there := segment(t, e, name)
	roundTrip(t, e, buf, id, there)
}

func build() string {
	if dir := os.Getenv("TE_BUILD"); dir != "" {
		return dir
	}
	return "../../build"
}

func waitFile(t *testing.T, name string) string {
	t.Helper()
	for i := 0; i < 1000; i++ {
		if text, err := os.ReadFile(name); err == nil && len(text) > 0 {
			return string(text)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("te-target is not ready")
	return ""
}

// The test binary once more, as a process that asks for a graceful end.
func TestGracefulShutdown(t *testing.T) {
	if os.Getenv("TE_TEST_GRACEFUL") != "" {
		e, _ := engine(t, "graceful")
		e.EnableGracefulShutdown()
		fmt.Println("ready")
		time.Sleep(time.Minute)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestGracefulShutdown$")
	child.Env = append(os.Environ(), "TE_TEST_GRACEFUL=1")
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err = out.Read(line); err != nil || string(line) != "ready\n" {
		t.Fatal("the child says ", string(line), err)
	}
	child.Process.Signal(os.Interrupt)
	var exit *exec.ExitError
	if err = child.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Error("it ends with ", err)
	}
}
