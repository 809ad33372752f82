"""Texts that are no document: what they are is told, and not the first byte that cannot stand there."""

from __future__ import annotations

import gzip

import pytest

from .test_documents import problems_of


@pytest.mark.parametrize(("text", "what"), [
    (gzip.compress(b"name: x", mtime=0), "packed by gzip"), ("name: x".encode("utf-16"), "UTF-16")])
def test_a_file_of_another_kind_is_told_as_that(text, what):
    [problem] = problems_of(text)
    assert what in problem.message and "byte 0x" not in problem.message
