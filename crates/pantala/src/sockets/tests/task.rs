//! Connections of tasks, by tokio's traits.

use core::future::poll_fn;
use core::pin::Pin;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sockets::aio::TcpStream;

pub(super) async fn read(mut from: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    let mut into = ReadBuf::new(into);
    poll_fn(|context| Pin::new(&mut from).poll_read(context, &mut into)).await?;
    Ok(into.filled().len())
}

pub(super) async fn read_to_end(from: &TcpStream) -> io::Result<Vec<u8>> {
    let (mut all, mut some) = (Vec::new(), [0; 100]);
    loop {
        match read(from, &mut some).await? {
            0 => return Ok(all),
            count => all.extend_from_slice(&some[..count]),
        }
    }
}

pub(super) async fn write(mut to: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    poll_fn(|context| Pin::new(&mut to).poll_write(context, bytes)).await
}

pub(super) async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = write(to, bytes).await?;
        bytes = &bytes[count..];
    }
    Ok(())
}
