"""The rig of the live tests: real servers, real sockets, no mocks.

limits      how long a test may wait, and the one way to wait for a state
process     accounts, folders, ports and children
postgres    a throwaway PostgreSQL
pooler      the program under test with a configuration of its own
raw         the wire protocol by hand
oracle      the same bytes to PostgreSQL and through the pooler
relay       a TCP relay that delays, cuts, mutes and splits
fakeserver  a PostgreSQL that does what PostgreSQL never would
cases       what the tests of real-world cases have in common
node        scripts for Node and their packages
http        the HTTP port and its page of metrics
prometheus  a Prometheus that scrapes it
certs       a certificate authority for one run
"""

from .limits import limit, until
from .oracle import same_as_direct
from .pooler import Pooler, stand_in
from .postgres import Postgres
from .process import free_port
from .raw import Raw
from .relay import Relay

__all__ = ["limit", "until", "same_as_direct", "Pooler", "stand_in", "Postgres",
           "free_port", "Raw", "Relay"]
