"""tests/bindings/c/peer.c in Python: moves verified data to and from whoever serves a segment of 1 MiB.

    peer.py target CONN NAME             serve 1 MiB, print "ready SEGMENT ADDRESS"; at the end of standard input see what it holds
    peer.py initiator CONN NAME SEGMENT  WRITE the pattern there, READ it back, compare
"""
import sys

from mooncake.engine import TransferEngine

SIZE = 1 << 20
BLOCK = 1 << 16
PATTERN = bytes((i * 31 + i // 251) & 255 for i in range(SIZE))


def target(engine, conn, name):
    memory = engine.allocate_managed_buffer(SIZE)
    assert memory
    if conn == "P2PHANDSHAKE":
        name = f"{name}:{engine.get_rpc_port()}"
    print("ready", name, hex(memory), flush=True)
    sys.stdin.read()
    return engine.read_bytes_from_buffer(memory, SIZE) == PATTERN


def initiator(engine, segment):
    there = engine.get_first_buffer_address(segment)
    mine = engine.allocate_managed_buffer(SIZE)
    assert there and mine and engine.write_bytes_to_buffer(mine, PATTERN, SIZE) == 0
    blocks = range(0, SIZE, BLOCK)
    move = ([mine + at for at in blocks], [there + at for at in blocks], [BLOCK for _ in blocks])
    assert engine.batch_transfer_sync_write(segment, *move) == 0
    back = bytearray(SIZE)
    assert engine.transfer_sync_read(segment, back, there, SIZE) == 0
    print("moved 1 MiB and back")
    return back == PATTERN


def main(how, conn, name, segment=None):
    engine = TransferEngine()
    assert engine.initialize(name, conn, "tcp", "") == 0
    return target(engine, conn, name) if how == "target" else initiator(engine, segment)


sys.exit(0 if main(*sys.argv[1:]) else 1)
