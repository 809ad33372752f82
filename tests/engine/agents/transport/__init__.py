"""Tests of how state goes to another node: in pieces, ahead in rounds, as rows and as texts, whoever dies when."""
