//! Two services with a stand-in endpoint, and a peer that is driven by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_core::future::BoxFuture;
use lockkeeper_core::transport::{
    ConnectRequest, Handshake, InboundCall, InboundEndpoint, InboundSession, OutboundCall,
    RemoteSession, ReplySink, Transport,
};
use lockkeeper_core::{
    Authority, EndpointId, GatewayDescriptor, MethodDescriptor, RpcAddress, RpcError, RpcErrorKind,
    RpcService,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_util::codec::{Decoder, Encoder};
use uuid::Uuid;

use crate::builder::{RemoteBuilder, RemoteBuilderExt};
use crate::settings::RemoteSettings;
use crate::transport::TcpTransport;
use crate::wire::{Frame, FrameCodec, HEAD, Preface, VERSIONS};

/// No test waits longer than this for anything.
pub(super) const LIMIT: Duration = Duration::from_secs(120);

pub(super) static GATEWAY: GatewayDescriptor = GatewayDescriptor {
    name: "test.Gateway",
    version: 1,
    fenced: false,
    methods: &[
        MethodDescriptor {
            name: "Echo",
            local: false,
        },
        MethodDescriptor {
            name: "Here",
            local: true,
        },
        MethodDescriptor {
            name: "Hold",
            local: false,
        },
        MethodDescriptor {
            name: "Grow",
            local: false,
        },
        MethodDescriptor {
            name: "Busy",
            local: false,
        },
    ],
};

/// Numbers in [`GATEWAY`].
pub(super) const ECHO: u16 = 0;
pub(super) const HERE: u16 = 1;
pub(super) const HOLD: u16 = 2;
pub(super) const GROW: u16 = 3;
pub(super) const BUSY: u16 = 4;

/// What the stand-in saw.
#[derive(Debug)]
pub(super) enum Seen {
    /// A call that it holds.
    Held(InboundCall, ReplySink),
    /// A one-way message.
    Told(InboundCall),
}

/// Echoes `Echo`, hands `Hold` to the test, answers `Grow` with as many bytes as it is
/// told, and has no room for the first three `Busy`.
#[derive(Debug)]
pub(super) struct StandIn {
    seen: mpsc::UnboundedSender<Seen>,
    ended: watch::Receiver<Option<RpcError>>,
}

impl InboundEndpoint for StandIn {
    fn accept(&self, handshake: Handshake) -> Result<Arc<dyn InboundSession>, RpcError> {
        if handshake.gateway != GATEWAY.name {
            return Err(RpcError::new(RpcErrorKind::WrongGateway, handshake.gateway));
        }
        Ok(Arc::new(StandInSession {
            methods: handshake.methods,
            rooms: AtomicUsize::new(0),
            seen: self.seen.clone(),
            ended: self.ended.clone(),
        }))
    }
}

#[derive(Debug)]
struct StandInSession {
    methods: Vec<String>,
    /// `Busy` calls that came.
    rooms: AtomicUsize,
    seen: mpsc::UnboundedSender<Seen>,
    ended: watch::Receiver<Option<RpcError>>,
}

impl InboundSession for StandInSession {
    fn ask(&self, call: InboundCall, reply: ReplySink) {
        match self
            .methods
            .get(usize::from(call.method))
            .map(String::as_str)
        {
            Some("Echo") => reply.reply(Ok(call.payload)),
            Some("Hold") => drop(self.seen.send(Seen::Held(call, reply))),
            Some("Busy") => reply.reply(match self.rooms.fetch_add(1, Ordering::Relaxed) {
                0..3 => Err(RpcError::new(RpcErrorKind::Full, "the inbox is full")),
                _ => Ok(call.payload),
            }),
            Some("Grow") => {
                let size = u32::from_be_bytes(call.payload[..].try_into().unwrap());
                let size = usize::try_from(size).unwrap();
                reply.reply(Ok(Bytes::from(vec![7; size])));
            }
            _ => reply.reply(Err(RpcError::new(RpcErrorKind::UnknownMethod, "none"))),
        }
    }

    fn tell(&self, call: InboundCall) {
        drop(self.seen.send(Seen::Told(call)));
    }

    fn closed(&self) -> BoxFuture<'static, RpcError> {
        let mut ended = self.ended.clone();
        Box::pin(async move {
            let ended = ended.wait_for(Option::is_some).await;
            let end = ended.ok().and_then(|end| end.clone());
            match end {
                Some(end) => end,
                None => std::future::pending().await,
            }
        })
    }
}

/// A service with the stand-in endpoint `echo`.
pub(super) struct Service {
    pub(super) transport: TcpTransport,
    pub(super) seen: mpsc::UnboundedReceiver<Seen>,
    end: watch::Sender<Option<RpcError>>,
}

impl Service {
    pub(super) async fn start() -> Self {
        Self::start_with(|builder| builder).await
    }

    pub(super) async fn start_with(set: impl FnOnce(RemoteBuilder) -> RemoteBuilder) -> Self {
        let builder = set(RpcService::builder().bind("127.0.0.1:0"));
        Self::start_as(builder, Uuid::new_v4()).await
    }

    pub(super) async fn start_as(builder: RemoteBuilder, incarnation: Uuid) -> Self {
        let bound = builder.listen().await.unwrap();
        let (seen, receiver) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(None);
        let endpoint: Arc<dyn InboundEndpoint> = Arc::new(StandIn { seen, ended });
        let endpoints = Arc::new(move |id: &str| (id == "echo").then(|| Arc::clone(&endpoint)));
        let transport = builder.serve_for_tests(bound, incarnation, endpoints);
        Self {
            transport,
            seen: receiver,
            end,
        }
    }

    pub(super) fn end_endpoint(&mut self, why: &str) {
        self.end
            .send_replace(Some(RpcError::new(RpcErrorKind::Stopped, why)));
    }

    pub(super) fn authority(&self) -> Authority {
        self.transport.authority()
    }

    pub(super) fn address(&self) -> RpcAddress {
        address(self.authority(), "echo")
    }

    pub(super) async fn connect(
        &self,
        address: RpcAddress,
    ) -> Result<Arc<dyn RemoteSession>, RpcError> {
        self.connect_within(address, LIMIT).await
    }

    pub(super) async fn connect_within(
        &self,
        address: RpcAddress,
        limit: Duration,
    ) -> Result<Arc<dyn RemoteSession>, RpcError> {
        let deadline = (Instant::now() + limit).into();
        let request = ConnectRequest {
            address,
            gateway: &GATEWAY,
            shapes: &[],
            token: None,
            deadline,
        };
        self.transport.connect(request).await
    }

    pub(super) async fn seen(&mut self) -> Seen {
        tokio::time::timeout(LIMIT, self.seen.recv())
            .await
            .unwrap()
            .unwrap()
    }

    pub(super) async fn held(&mut self) -> (InboundCall, ReplySink) {
        match self.seen().await {
            Seen::Held(call, reply) => (call, reply),
            Seen::Told(call) => panic!("a one-way message: {call:?}"),
        }
    }

    /// Connections of this service.
    pub(super) fn links(&self) -> usize {
        self.transport.shared().peers.all().len()
    }
}

pub(super) fn address(authority: Authority, endpoint: &str) -> RpcAddress {
    RpcAddress::remote(authority, EndpointId::new(endpoint).unwrap())
}

pub(super) fn call(method: u16, payload: impl Into<Bytes>) -> OutboundCall {
    call_within(method, payload, LIMIT)
}

pub(super) fn call_within(method: u16, payload: impl Into<Bytes>, limit: Duration) -> OutboundCall {
    OutboundCall {
        method,
        payload: payload.into(),
        deadline: (Instant::now() + limit).into(),
    }
}

/// Shows that the session serves: the good call after a bad one.
pub(super) async fn assert_serves(session: &Arc<dyn RemoteSession>) {
    let answer = session.ask(call(ECHO, &b"still there"[..])).await;
    assert_eq!(answer.unwrap(), &b"still there"[..]);
}

pub(super) fn quick_settings() -> RemoteSettings {
    RemoteSettings {
        ping_interval: Duration::from_millis(50),
        ping_timeout: Duration::from_millis(300),
        handshake_timeout: Duration::from_secs(2),
        ..RemoteSettings::default()
    }
}

/// A peer of which each byte is said by the test.
pub(super) struct HandPeer {
    stream: TcpStream,
    bytes: BytesMut,
}

impl HandPeer {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            bytes: BytesMut::new(),
        }
    }

    pub(super) async fn dial(authority: &Authority) -> Self {
        let stream = TcpStream::connect((authority.host(), authority.port()))
            .await
            .unwrap();
        Self::new(stream)
    }

    pub(super) fn preface() -> Preface {
        Preface {
            versions: VERSIONS,
            incarnation: Uuid::new_v4(),
            frame_limit: 1024 * 1024,
            application: String::new(),
            listening: String::new(),
            nonce: None,
        }
    }

    pub(super) async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(super) async fn say_preface(&mut self, preface: &Preface) {
        let mut bytes = BytesMut::new();
        preface.encode(&mut bytes).unwrap();
        self.say(&bytes).await;
    }

    pub(super) async fn say_frame(&mut self, frame: &Frame) {
        let mut bytes = BytesMut::new();
        FrameCodec::new(u32::MAX).encode(frame, &mut bytes).unwrap();
        self.say(&bytes).await;
    }

    async fn more(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.bytes);
        matches!(tokio::time::timeout(LIMIT, read).await.unwrap(), Ok(size) if size > 0)
    }

    pub(super) async fn hear_preface(&mut self) -> Preface {
        loop {
            if let Some(head) = self.bytes.first_chunk::<HEAD>() {
                let length = Preface::body_length(head).unwrap();
                if self.bytes.len() >= HEAD + length {
                    let mut preface = self.bytes.split_to(HEAD + length);
                    return Preface::decode(preface.split_off(HEAD).freeze()).unwrap();
                }
            }
            assert!(self.more().await, "closed instead of a preface");
        }
    }

    #[cfg(feature = "shared-key")]
    pub(super) async fn hear_bytes(&mut self, size: usize) -> BytesMut {
        while self.bytes.len() < size {
            assert!(self.more().await, "closed within {size} bytes");
        }
        self.bytes.split_to(size)
    }

    /// The next frame, or none if the connection is closed.
    pub(super) async fn hear(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = FrameCodec::new(u32::MAX).decode(&mut self.bytes).unwrap() {
                return Some(frame);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// All that comes until the other side closes.
    pub(super) async fn hear_all(&mut self) -> BytesMut {
        while self.more().await {}
        std::mem::take(&mut self.bytes)
    }
}
