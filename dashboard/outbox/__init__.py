"""Messages of Weir to others: each message is a row, stored with what it is about, and sent until it has arrived.

Imports teams, audit and jobs. Read ``sending.py`` first, then ``webhook_posts.py`` for what an address may be, and
``notice_choices.py`` for how each person is notified.
"""
