"""What kills PostgreSQL is not sent."""

from .script import C


def copies(message):
	"""How often it reads data."""
	return message.args[0].count("from stdin") if message.kind == "Q" else 0


def executes_left_over(messages):
	"""Behind a Query: may an Execute find the unnamed portal as that Query has left it?

	It may not if a Bind or Close of the portal stands before it and no Sync between them: if that is
	skipped for an error, so is the Execute. Nor if another Query does, unless that may be skipped.
	"""
	gone, is_read = False, True
	for m in messages:
		if m.kind == "Q":
			if is_read:
				return False
			continue
		is_read = m.kind == "S"
		if is_read:
			gone = False
		elif m == C("P", "") or (m.kind == "B" and m.args[0] == ""):
			gone = True
		elif m.kind == "E" and m.args[0] == "" and not gone:
			return True
	return False


def spare_postgresql(messages):
	"""Closes the unnamed portal behind each Query whose portal an Execute might find.

	A statement of a Query that fails while it runs, in a transaction, leaves the unnamed portal behind.
	Its statements were in memory that PostgreSQL frees before it reads the next message, and only for
	portals of Bind it forgets them then. An Execute of that portal, in the transaction that has failed,
	reads what is there by now: mostly it is refused with 25P02 for all that, and sometimes the process
	dies by signal 11, and all sessions with it. Seen with 15.20: Query "begin"; Query "deallocate
	nosuch"; a Query of nine statements, which is refused; Execute. Close drops the portal unread.
	"""
	made, copying = [], 0
	for i, m in enumerate(messages):
		made.append(m)
		ends = m.kind == "Q" or (copying and m.kind in "cf")
		copying = copies(m) if m.kind == "Q" else copying - ends
		# Not while PostgreSQL reads copy data: a Close would end the session.
		if ends and not copying and executes_left_over(messages[i + 1:]):
			made.append(C("P", ""))
	return made
