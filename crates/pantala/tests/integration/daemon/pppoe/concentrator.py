#!/usr/bin/env python3
"""A PPPoE access concentrator for tests: frames on a packet socket, packets on a TUN of the kernel.

    concentrator.py INTERFACE TUN AUTH [ADDRESS PREFIX]

AUTH is pap, chap or none; user `office`, password `secret`. The TUN must have its addresses. It advertises the router fe80::1
with the prefix 2001:db8:77::/64, and delegates PREFIX, or 2001:db8:4400::, of 56 bits by DHCPv6. A line on standard output tells of each event; a
line `padt` on standard input ends the session. IPv4 and IPv6 packets above 1492 bytes are dropped, with a line `too-big`.
"""
import fcntl, hashlib, ipaddress, os, select, socket, struct, sys, time

LCP, PAP, CHAP, IPCP, IP6CP, V4, V6 = 0xC021, 0xC023, 0xC223, 0x8021, 0x8057, 0x21, 0x57
ADDRESS, DNS, PREFIX = "10.64.0.100", "10.64.0.53", "2001:db8:4400::"
MTU = 1492


def say(*words):
    print(*words, flush=True)


def pairs(data, head):
    """Tags (head 4) or options (head 2) of a packet."""
    while len(data) >= head:
        kind, size = struct.unpack(">HH" if head == 4 else ">BB", data[:head])
        size += 4 if head == 4 else 0
        if size < head or size > len(data):
            return
        yield kind, data[head:size]
        data = data[size:]


def option(kind, value):
    return bytes([kind, 2 + len(value)]) + value


def ip6_sum(src, dst, proto, body):
    data = src + dst + struct.pack(">II", len(body), proto) + body + b"\0" * (len(body) % 2)
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF or 0xFFFF)


def ip6(src, dst, proto, body, at):
    """An IPv6 packet whose checksum is at this place of its body."""
    src, dst = (ipaddress.IPv6Address(addr).packed for addr in (src, dst))
    body = body[:at] + ip6_sum(src, dst, proto, body) + body[at + 2:]
    return struct.pack(">IHBB", 6 << 28, len(body), proto, 255) + src + dst + body


class Concentrator:
    def __init__(self, device, tun, auth):
        self.frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.frames.bind((device, 0))
        self.mac = self.frames.getsockname()[4]
        self.tun = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(self.tun, 0x400454CA, struct.pack("16sH22x", tun.encode(), 0x1001))
        self.auth, self.client, self.session = auth, None, 0
        self.serial = os.getpid() % 1000 * 10

    def frame(self, kind, payload, to=None):
        data = (to or self.client) + self.mac + struct.pack(">H", kind) + payload
        try:
            self.frames.send(data.ljust(60, b"\0"))
        except OSError as why:
            say("not-sent", why)

    def discovery(self, code, session, tags, to):
        body = b"".join(struct.pack(">HH", kind, len(value)) + value for kind, value in tags)
        self.frame(0x8863, struct.pack(">BBHH", 0x11, code, session, len(body)) + body, to)

    def ppp(self, number, body):
        self.frame(0x8864, struct.pack(">BBHHH", 0x11, 0, self.session, len(body) + 2, number) + body)

    def control(self, number, code, ident, data=b""):
        self.ppp(number, struct.pack(">BBH", code, ident, 4 + len(data)) + data)

    def ask(self, number):
        layer = self.layers.setdefault(number, {"ours": False, "theirs": False, "id": 0})
        layer["id"] += 1
        auth = {"pap": option(3, b"\xc0\x23"), "chap": option(3, b"\xc2\x23\x05"), "none": b""}[self.auth]
        wanted = {LCP: option(1, struct.pack(">H", MTU)) + option(5, self.magic) + auth,
                  IPCP: option(3, socket.inet_aton("10.64.0.1")), IP6CP: option(1, bytes(7) + b"\x01")}
        self.control(number, 1, layer["id"], wanted[number])

    def begin(self, client, tags):
        self.serial += 1
        self.client, self.session, self.layers = client, self.serial, {}
        self.magic, self.is_known, self.missed, self.last = os.urandom(4), self.auth == "none", 0, time.time()
        self.discovery(0x65, self.session, tags, client)
        say("session", self.session)
        self.ask(LCP)

    def end(self, why):
        if self.session:
            say("ended", self.session, why)
        self.session = 0

    def discovered(self, source, code, session, body):
        tags = dict(pairs(body, 4))
        back = [(0x0101, tags.get(0x0101, b""))] + [(kind, tags[kind]) for kind in (0x0103,) if kind in tags]
        cookie = hashlib.md5(source).digest()
        if code == 0x09:
            self.discovery(0x07, 0, back + [(0x0102, b"test-ac"), (0x0104, cookie)], source)
        elif code == 0x19 and tags.get(0x0104) == cookie:
            self.begin(source, back)
        elif code == 0xA7:
            say("padt", session)
            if session == self.session:
                self.end("by the client")

    def spoken(self, number, body):
        self.missed = 0
        if number in (V4, V6):
            return self.carried(number, body)
        code, ident, size = struct.unpack(">BBH", body[:4])
        data = body[4:size]
        if number == PAP and code == 1:
            name, rest = data[1:1 + data[0]], data[1 + data[0]:]
            self.judged(PAP, ident, (name, rest[1:1 + rest[0]]) == (b"office", b"secret"))
        elif number == CHAP and code == 2:
            right = hashlib.md5(bytes([ident]) + b"secret" + b"challenge").digest()
            self.judged(CHAP, ident, (data[17:], data[1:17]) == (b"office", right))
        elif number in (LCP, IPCP, IP6CP):
            self.negotiated(number, code, ident, data)

    def judged(self, number, ident, is_right):
        code = (2 if is_right else 3) + (number == CHAP)
        self.control(number, code, ident, b"\0" if number == PAP else b"")
        say("user", "right" if is_right else "wrong")
        if is_right and not self.is_known:
            self.is_known = True
            self.ask(IPCP)
            self.ask(IP6CP)

    def judge(self, number, kind, value):
        if number == LCP:
            return value if kind in (1, 5) else None
        if number == IPCP:
            return {3: socket.inet_aton(ADDRESS), 129: socket.inet_aton(DNS)}.get(kind)
        return value if kind == 1 else None

    def negotiated(self, number, code, ident, data):
        layer = self.layers.setdefault(number, {"ours": False, "theirs": False, "id": 0})
        if code == 1:
            judged = [(kind, value, self.judge(number, kind, value)) for kind, value in pairs(data, 2)]
            rejected = b"".join(option(kind, value) for kind, value, good in judged if good is None)
            better = b"".join(option(kind, good) for kind, value, good in judged if good not in (None, value))
            answer, back = (4, rejected) if rejected else (3, better) if better else (2, data)
            self.control(number, answer, ident, back)
            layer["theirs"] = answer == 2
        elif code == 2 and ident == layer["id"]:
            layer["ours"] = True
        elif code == 5:
            self.control(number, 6, ident)
        elif code == 9 and number == LCP:
            self.control(LCP, 10, ident, self.magic + data[4:])
        if code in (1, 2) and layer["ours"] and layer["theirs"]:
            self.agreed(number)

    def agreed(self, number):
        if number == LCP and self.auth == "chap":
            self.control(CHAP, 1, 5, b"\x09challengeac")
        elif number == LCP and self.is_known:
            self.ask(IPCP)
            self.ask(IP6CP)
        elif number != LCP:
            say("carries", "IPv4" if number == IPCP else "IPv6")

    def carried(self, number, packet):
        if number == V6 and packet[6] == 58 and packet[40] == 133:
            return self.advertise()
        if number == V6 and packet[6] == 17 and packet[42:44] == b"\x02\x23":
            return self.delegate(packet)
        os.write(self.tun, packet)

    def advertise(self):
        prefix = struct.pack(">BBBBIII", 3, 4, 64, 0x40, 600, 300, 0) + ipaddress.IPv6Address("2001:db8:77::").packed
        body = struct.pack(">BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix
        self.ppp(V6, ip6("fe80::1", "ff02::1", 58, body, 2))

    def delegate(self, packet):
        """Answers a client of DHCPv6 with its prefix."""
        source, message = str(ipaddress.IPv6Address(packet[8:24])), packet[48:]
        options = dict(pairs(message[4:], 4))
        kind = {1: 2, 3: 7, 5: 7, 6: 7, 8: 7}.get(message[0])
        if kind is None or 25 not in options:
            return
        one = lambda code, value: struct.pack(">HH", code, len(value)) + value
        prefix = one(26, struct.pack(">IIB", 300, 600, 56) + ipaddress.IPv6Address(PREFIX).packed)
        lease = one(25, options[25][:4] + struct.pack(">II", 150, 240) + prefix)
        server = one(2, b"\x00\x03\x00\x01" + self.mac)
        body = bytes([kind]) + message[1:4] + one(1, options[1]) + server + lease
        datagram = struct.pack(">HHHH", 547, 546, 8 + len(body), 0) + body
        self.ppp(V6, ip6("fe80::1", source, 17, datagram, 6))

    def received(self):
        try:
            data = self.frames.recv(4096)
        except OSError:
            return  # The device went down.
        kind, code, session, size = struct.unpack(">HxBHH", data[12:20]) if len(data) >= 20 else (0, 0, 0, 0)
        body = data[20:20 + size]
        if kind == 0x8863:
            self.discovered(data[6:12], code, session, body)
        elif kind == 0x8864 and session == self.session and data[6:12] == self.client:
            self.spoken(struct.unpack(">H", body[:2])[0], body[2:])

    def sent(self):
        packet = os.read(self.tun, 4096)
        if not self.session:
            return
        if len(packet) > MTU:
            return say("too-big", len(packet))
        self.ppp(V4 if packet[0] >> 4 == 4 else V6, packet)

    def tick(self):
        """Each second: what was not answered is asked again, and whether the client is there."""
        if not self.session or time.time() - self.last < 1:
            return
        self.last, self.missed = time.time(), self.missed + 1
        for number in [number for number, layer in self.layers.items() if not layer["ours"]]:
            self.ask(number)
        self.control(LCP, 9, 1, self.magic)
        if self.missed > 30:
            self.end("no answer")

    def run(self):
        say("ready")
        while True:
            for ready in select.select([self.frames, self.tun, sys.stdin], [], [], 0.2)[0]:
                if ready is self.frames:
                    self.received()
                elif ready == self.tun:
                    self.sent()
                elif not sys.stdin.readline():
                    return
                elif self.session:
                    self.discovery(0xA7, self.session, [], self.client)
                    self.end("as told")
            self.tick()


if len(sys.argv) > 4:
    ADDRESS, PREFIX = sys.argv[4:6]
Concentrator(*sys.argv[1:4]).run()
