#!/usr/bin/env python3
"""A BGP speaker that announces a full table, again after each time that its session has ended.

    feeder.py PEER OWN-AS ROUTES NEXT-HOP-4 NEXT-HOP-6 OTHER-4 OTHER-6

It announces ROUTES IPv4 networks of 24 bits, and a quarter as many IPv6 networks of 48 bits. A line on standard output tells of
each session (`open`), and when all was sent (`sent SECONDS`).

`round N CHANGES` on standard input has it announce CHANGES more networks, a fifth of them of IPv6, if N is even, and withdraw them if
it is odd; announce the first network of the table by the other next hop, and last a network of each family that belongs to N. When all
was sent, it says `round N`.
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


def batches(numbers):
    return (numbers[first:first + 250] for first in range(0, len(numbers), 250))


def nlri4(top, numbers):
    return b"".join(b"\x18" + struct.pack(">I", (top << 24) + (n << 8))[:3] for n in numbers)


def nlri6(top, numbers):
    return b"".join(b"\x30" + struct.pack(">HI", top, n) for n in numbers)


def announced4(own_as, via, top, numbers):
    head = attribute(1, b"\0") + attribute(2, struct.pack(">BBI", 2, 1, own_as)) + attribute(3, via)
    for batch in batches(numbers):
        yield message(UPDATE, struct.pack(">HH", 0, len(head)) + head + nlri4(top, batch))


def announced6(own_as, via, top, numbers):
    path = attribute(1, b"\0") + attribute(2, struct.pack(">BBI", 2, 1, own_as))
    for batch in batches(numbers):
        reach = attribute(14, struct.pack(">HBB", 2, 1, 16) + via + b"\0" + nlri6(top, batch), 0x80)
        yield message(UPDATE, struct.pack(">HH", 0, len(path + reach)) + path + reach)


def withdrawn4(top, numbers):
    for batch in batches(numbers):
        gone = nlri4(top, batch)
        yield message(UPDATE, struct.pack(">H", len(gone)) + gone + struct.pack(">H", 0))


def withdrawn6(top, numbers):
    for batch in batches(numbers):
        gone = attribute(15, struct.pack(">HB", 2, 1) + nlri6(top, batch), 0x80)
        yield message(UPDATE, struct.pack(">HH", 0, len(gone)) + gone)


def table_of(own_as, count, via4, via6):
    yield from announced4(own_as, via4, 16, range(count))
    yield from announced6(own_as, via6, 0x2400, range(count // 4))


def round_of(own_as, n, changes, vias):
    v4, v6 = range(changes - changes // 5), range(changes // 5)
    if n % 2 == 0:
        yield from announced4(own_as, vias[0], 40, v4)
        yield from announced6(own_as, vias[1], 0x2401, v6)
    else:
        yield from withdrawn4(40, v4)
        yield from withdrawn6(0x2401, v6)
    via4, via6 = vias[:2] if n % 2 else vias[2:]
    yield from announced4(own_as, via4, 16, range(1))
    yield from announced6(own_as, via6, 0x2400, range(1))
    yield from announced4(own_as, vias[0], 41, range(n, n + 1))
    yield from announced6(own_as, vias[1], 0x2402, range(n, n + 1))


def drain(session):
    """Reads until the other end is gone."""
    try:
        while session.recv(65536):
            pass
    except OSError:
        pass


class Session:
    """The session of the moment, into which one thread writes at a time."""
    now = None
    lock = threading.Lock()

    @classmethod
    def send(cls, data):
        with cls.lock:
            cls.now.sendall(data)


def keep():
    try:
        while True:
            time.sleep(HOLD / 6)
            Session.send(message(KEEPALIVE, b""))
    except (OSError, AttributeError):
        pass


def obey(own_as, vias):
    for line in sys.stdin:
        word, n, changes = line.split()
        Session.send(b"".join(round_of(own_as, int(n), int(changes), vias)))
        print(word, n, flush=True)


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
    Session.now = session
    threading.Thread(target=keep, daemon=True).start()
    reader.join()
    Session.now = None
    session.close()


def main(peer, own_as, count, *vias):
    vias = [ipaddress.ip_address(via).packed for via in vias]
    table = list(table_of(int(own_as), int(count), *vias[:2]))
    threading.Thread(target=obey, args=(int(own_as), vias), daemon=True).start()
    while True:
        try:
            speak(peer, int(own_as), table, vias[0])
        except OSError:
            pass
        time.sleep(0.3)


main(*sys.argv[1:])
