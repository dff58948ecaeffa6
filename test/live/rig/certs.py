"""A certificate authority for one run, made with the openssl tool.

	ca / ca_key                 the good authority
	server_cert / server_key    localhost and 127.0.0.1
	client(cn)                  a client certificate by the good authority
	other_ca, other(cn)         an authority that nobody trusts, and its certificates
"""

import os
import ssl
import subprocess

from . import process


class Certs:
	def __init__(self):
		self.folder = process.new_folder(prefix="certs-")
		self.ca, self.ca_key = self._authority("ca")
		self.other_ca, self.other_ca_key = self._authority("other-ca")
		self.server_cert, self.server_key = self.issue("server", "localhost",
		                                               names="DNS:localhost,IP:127.0.0.1")

	def _openssl(self, *args):
		subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=self.folder)

	def _path(self, name):
		return os.path.join(self.folder, name)

	def _authority(self, name):
		key, cert = self._path(f"{name}.key"), self._path(f"{name}.crt")
		self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
		              "-nodes", "-keyout", key, "-out", cert, "-days", "30",
		              "-subj", f"/CN=test {name}",
		              "-addext", "basicConstraints=critical,CA:TRUE")
		return cert, key

	def issue(self, name, cn, *, names=None, ca=None, days=30):
		"""A certificate and its key; ca: a (certificate, key) pair."""
		ca_cert, ca_key = ca or (self.ca, self.ca_key)
		key, cert, request = (self._path(f"{name}.{end}") for end in ("key", "crt", "csr"))
		self._openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
		              "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={cn}")
		extension = process.write_file(self._path(f"{name}.ext"),
		                               f"subjectAltName={names}\n" if names else "\n")
		self._openssl("x509", "-req", "-in", request, "-CA", ca_cert, "-CAkey", ca_key,
		              "-CAcreateserial", "-out", cert, "-days", str(days), "-extfile", extension)
		for path in (key, cert):
			process.give_away(path)
			os.chmod(path, 0o600 if path == key else 0o644)
		return cert, key

	def client(self, cn):
		return self.issue(f"client-{cn}", cn)

	def other(self, cn):
		return self.issue(f"other-{cn}", cn, ca=(self.other_ca, self.other_ca_key))

	def context(self, *, cert=None, alpn=None, verify=True, lowest=None, highest=None):
		"""A client's TLS context for the raw client."""
		context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
		if verify:
			context.load_verify_locations(self.ca)
		else:
			context.check_hostname = False
			context.verify_mode = ssl.CERT_NONE
		if cert:
			context.load_cert_chain(*cert)
		if alpn:
			context.set_alpn_protocols([alpn])
		if lowest:
			context.minimum_version = lowest
		if highest:
			context.maximum_version = highest
		return context

	def remove(self):
		process.remove(self.folder)
