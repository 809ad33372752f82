import pytest
@pytest.mark.parametrize("n", range(3000))
def test_it(n): pass
