// A server and a client of UDP, as programs of Go are: statically linked, with system calls of their own.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	ask(os.Args[2])
	refused(os.Args[3])
	fmt.Println("done")
}

// Answers in upper case.
func serve(at string) {
	addr, err := net.ResolveUDPAddr("udp", at)
	check(err)
	conn, err := net.ListenUDP("udp", addr)
	check(err)
	buffer := make([]byte, 65536)
	for {
		n, from, err := conn.ReadFromUDP(buffer)
		check(err)
		_, err = conn.WriteToUDP(bytes.ToUpper(buffer[:n]), from)
		check(err)
	}
}

func ask(to string) {
	conn, err := net.Dial("udp", to)
	check(err)
	check(conn.SetDeadline(time.Now().Add(20 * time.Second)))
	if conn.RemoteAddr().String() != to {
		check(fmt.Errorf("the peer is %v", conn.RemoteAddr()))
	}
	buffer := make([]byte, 65536)
	for length := 1; length < 5000; length += 499 {
		_, err = conn.Write(bytes.Repeat([]byte("a"), length))
		check(err)
		n, err := conn.Read(buffer)
		check(err)
		if !bytes.Equal(buffer[:n], bytes.Repeat([]byte("A"), length)) {
			check(fmt.Errorf("%d bytes of %d", n, length))
		}
	}
	// An answer that does not come is waited for as long as the program says.
	check(conn.SetDeadline(time.Now().Add(50 * time.Millisecond)))
	_, err = conn.Read(buffer)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		check(fmt.Errorf("no deadline: %v", err))
	}
	// Without a peer, from a port of its own, and from any.
	addr, err := net.ResolveUDPAddr("udp", to)
	check(err)
	for _, port := range []int{7777, 0} {
		loose, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
		check(err)
		check(loose.SetDeadline(time.Now().Add(20 * time.Second)))
		// It is read from another goroutine, which waits before anything is sent, and again after that.
		read := make(chan error)
		go func() {
			for range []int{0, 1} {
				bytes := make([]byte, 100)
				n, from, err := loose.ReadFromUDP(bytes)
				if err == nil && (string(bytes[:n]) != "LOOSE" || from.Port != addr.Port || !from.IP.Equal(addr.IP)) {
					err = fmt.Errorf("%q of %v", bytes[:n], from)
				}
				read <- err
			}
		}()
		for range []int{0, 1} {
			_, err = loose.WriteToUDP([]byte("loose"), addr)
			check(err)
			check(<-read)
		}
		check(loose.Close())
	}
}

// A call that receives with the sender's address learns that none listens.
func refused(to string) {
	addr, err := net.ResolveUDPAddr("udp", to)
	check(err)
	conn, err := net.DialUDP("udp", nil, addr)
	check(err)
	check(conn.SetDeadline(time.Now().Add(20 * time.Second)))
	_, err = conn.Write([]byte("x"))
	check(err)
	_, _, err = conn.ReadFromUDP(make([]byte, 9))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		check(fmt.Errorf("not refused: %v", err))
	}
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
