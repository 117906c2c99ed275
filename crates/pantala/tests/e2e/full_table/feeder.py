#!/usr/bin/env python3
"""A BGP speaker that announces a full table, again after each time that its session has ended.

    feeder.py PEER OWN-AS ROUTES NEXT-HOP-4 NEXT-HOP-6

It announces ROUTES IPv4 networks of 24 bits, and a quarter as many IPv6 networks of 48 bits. A line on standard output tells of
each session (`open`), and when all was sent (`sent SECONDS`).
"""
import ipaddress, socket, struct, sys, threading, time

MARK = b"\xff" * 16
OPEN, UPDATE, KEEPALIVE = 1, 2, 4
HOLD = 90


def message(kind, body):
    return MARK + struct.pack(">HB", 19 + len(body), kind) + body


def attribute(kind, value, flags=0x40):
    if len(value) > 255:
        return struct.pack(">BBH", flags | 0x10, kind, len(value)) + value
    return struct.pack(">BBB", flags, kind, len(value)) + value


def opening(own_as, ident):
    families = b"".join(struct.pack(">BBHBB", 1, 4, afi, 0, 1) for afi in (1, 2))
    as4 = struct.pack(">BBI", 65, 4, own_as)
    options = b"".join(struct.pack(">BB", 2, len(part)) + part for part in (families, as4))
    return message(OPEN, struct.pack(">BHH", 4, own_as, HOLD) + ident + struct.pack(">B", len(options)) + options)


def updates(own_as, count, via4, via6):
    path = attribute(1, b"\0") + attribute(2, struct.pack(">BBI", 2, 1, own_as))
    head = path + attribute(3, via4)
    for first in range(0, count, 250):
        nlri = b"".join(b"\x18" + struct.pack(">I", (16 << 24) + (n << 8))[:3] for n in range(first, min(first + 250, count)))
        yield message(UPDATE, struct.pack(">HH", 0, len(head)) + head + nlri)
    for first in range(0, count // 4, 250):
        numbers = range(first, min(first + 250, count // 4))
        nlri = b"".join(b"\x30\x24\x00" + struct.pack(">I", n) for n in numbers)
        reach = attribute(14, struct.pack(">HBB", 2, 1, 16) + via6 + b"\0" + nlri, 0x80)
        yield message(UPDATE, struct.pack(">HH", 0, len(path + reach)) + path + reach)


def drain(session):
    """Reads until the other end is gone."""
    try:
        while session.recv(65536):
            pass
    except OSError:
        pass


def keep(session):
    try:
        while True:
            time.sleep(HOLD / 6)
            session.sendall(message(KEEPALIVE, b""))
    except OSError:
        pass


def speak(peer, own_as, table, ident):
    session = socket.create_connection((peer, 179), 2)
    session.settimeout(None)
    session.sendall(opening(own_as, ident))
    if session.recv(19, socket.MSG_WAITALL)[18:19] != bytes([OPEN]):
        return
    session.sendall(message(KEEPALIVE, b""))
    print("open", flush=True)
    begun = time.time()
    reader = threading.Thread(target=drain, args=(session,), daemon=True)
    reader.start()
    for at in range(0, len(table), 64):
        session.sendall(b"".join(table[at:at + 64]))
    print("sent %.1f" % (time.time() - begun), flush=True)
    threading.Thread(target=keep, args=(session,), daemon=True).start()
    reader.join()
    session.close()


def main(peer, own_as, count, via4, via6):
    via4, via6 = (ipaddress.ip_address(via).packed for via in (via4, via6))
    table = list(updates(int(own_as), int(count), via4, via6))
    while True:
        try:
            speak(peer, int(own_as), table, via4)
        except OSError:
            pass
        time.sleep(0.3)


main(*sys.argv[1:])
