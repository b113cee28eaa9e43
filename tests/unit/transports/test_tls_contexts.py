"""TLS contexts for endpoints: the same one as long as options and files are the same."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path

import pytest

from app.transports.tls import ClientTls
from app.transports.tls_contexts import ClientContexts

TLS = Path(__file__).parents[2] / "data" / "tls"


@pytest.fixture
def options(tmp_path: Path) -> ClientTls:
    """Options with three files, which a test may change."""
    for name in ("ca.pem", "client.pem", "client.key"):
        shutil.copy(TLS / name, tmp_path)
    return ClientTls(*(str(tmp_path / name) for name in ("ca.pem", "client.pem", "client.key")))


def test_equal_options_share_a_context(options: ClientTls) -> None:
    contexts = ClientContexts()
    first = contexts.of(options)
    again = ClientTls(options.ca_file, options.cert_file, options.key_file)
    Path(options.ca_file).write_bytes((TLS / "ca.pem").read_bytes())  # a file may be written anew
    assert contexts.of(again) is first


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(ClientTls(), id="no options"),
        pytest.param(ClientTls(insecure_skip_verify=True), id="no verification"),
        pytest.param(ClientTls(str(TLS / "ca.pem")), id="another file of the same contents"),
    ],
)
def test_other_options_have_a_context_of_their_own(options: ClientTls, other: ClientTls) -> None:
    contexts = ClientContexts()
    found = [contexts.of(one) for one in (options, other, options, other)]
    assert (found[0] is found[2], found[1] is found[3], found[0] is found[1]) == (True, True, False)


def test_a_changed_file_makes_another_context_and_the_old_one_can_be_had_again(options: ClientTls) -> None:
    contexts, found = ClientContexts(), []
    for name in ("client", "server", "client"):
        for kind, file in (("pem", options.cert_file), ("key", options.key_file)):
            shutil.copy(TLS / f"{name}.{kind}", file)
        found.append(contexts.of(options))
    assert (found[0] is found[1], found[0] is found[2]) == (False, True)


def test_a_context_that_nothing_uses_is_not_kept(options: ClientTls) -> None:
    contexts = ClientContexts()
    context = contexts.of(options)
    assert list(contexts._contexts.values()) == [context]
    del context
    gc.collect()
    assert not contexts._contexts


@pytest.mark.parametrize("text", [None, "nothing"], ids=["missing", "not PEM"])
@pytest.mark.parametrize("name", ["ca.pem", "client.pem", "client.key"])
def test_a_file_that_can_not_be_used_is_an_os_error_that_names_it(
    options: ClientTls, tmp_path: Path, name: str, text: str | None
) -> None:
    path = tmp_path / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(OSError, match=f"{tmp_path}/{name}"):
        ClientContexts().of(options)
