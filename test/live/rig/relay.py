"""A TCP relay between two ends that can delay, split, mute and cut.

	relay = Relay(pg.address)
	relay.port                      connect here
	relay.hold("server")            what the server sends stays with us ...
	relay.release("server")         ... until here
	relay.delay_cancel = 0.1        new connections that open with a CancelRequest wait
	relay.edit = function           (direction, bytes) -> list of (seconds to wait, bytes)
	relay.cut()                     reset all connections

Directions are named after the sender: "client" or "server".
"""

import socket
import struct
import threading
import time

CANCEL_CODE = struct.pack("!I", 80877102)


class Relay:
	def __init__(self, target):
		self.target = target
		self.delay_cancel = 0
		self.edit = None
		self.connections = 0
		self.cancels = 0
		self.refuse = False
		self._open = {"client": threading.Event(), "server": threading.Event()}
		for gate in self._open.values():
			gate.set()
		self._sockets = set()
		self._ended = threading.Event()
		self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
		self.host, self.port = self._listener.getsockname()
		threading.Thread(target=self._accept, daemon=True).start()

	@property
	def address(self):
		return (self.host, self.port)

	def hold(self, direction):
		self._open[direction].clear()

	def release(self, direction):
		self._open[direction].set()

	def cut(self):
		for sock in list(self._sockets):
			self._reset(sock)

	def close(self):
		self._ended.set()
		for gate in self._open.values():
			gate.set()
		self._listener.close()
		self.cut()

	def _reset(self, sock):
		self._sockets.discard(sock)
		try:
			sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
			sock.shutdown(socket.SHUT_RDWR)
		except OSError:
			pass
		sock.close()

	def _accept(self):
		while not self._ended.is_set():
			try:
				client, _ = self._listener.accept()
			except OSError:
				return
			self.connections += 1
			if self.refuse:
				self._reset(client)
				continue
			threading.Thread(target=self._serve, args=(client,), daemon=True).start()

	def _serve(self, client):
		self._sockets.add(client)
		try:
			first = client.recv(65536)
			if first[4:8] == CANCEL_CODE:
				self.cancels += 1
				self._ended.wait(self.delay_cancel)
			server = socket.create_connection(self.target, timeout=10)
		except OSError:
			self._reset(client)
			return
		server.settimeout(None)
		for sock in (client, server):
			sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
		self._sockets.add(server)
		threading.Thread(target=self._pump, args=("server", server, client, b""), daemon=True).start()
		self._pump("client", client, server, first)

	def _pump(self, direction, source, sink, data):
		try:
			while data or (data := source.recv(65536)):
				self._open[direction].wait()
				for pause, piece in (self.edit(direction, data) if self.edit else [(0, data)]):
					if pause:
						time.sleep(pause)
					sink.sendall(piece)
				data = b""
			sink.shutdown(socket.SHUT_WR)
		except OSError:
			self._reset(source)
			self._reset(sink)

	def __enter__(self):
		return self

	def __exit__(self, *_):
		self.close()
