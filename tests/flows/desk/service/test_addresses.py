"""In the clear, the service listens on this machine only."""

from __future__ import annotations

import importlib.util

import pytest

from dp_core.errors import BadInput
from flows.desk.service.serving import Listening, check_listening
from tests.processes import ROOT


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    spec = importlib.util.spec_from_file_location("tls", ROOT / "deployments" / "tls.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make_certificates(folder)
    return folder


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_the_loopback_interface_needs_no_tls(host):
    assert check_listening(Listening(host)).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "server.example", "", "127.1"])
def test_another_address_needs_tls_or_a_proxy(host):
    with pytest.raises(BadInput, match="--tls-cert"):
        check_listening(Listening(host))
    check_listening(Listening(host, behind_proxy=True))


def test_another_address_is_allowed_with_a_certificate_and_its_key(certificates):
    pair = {"certificate": certificates / "server.pem", "key": certificates / "server.key"}
    assert check_listening(Listening("0.0.0.0", **pair)).url == "https://0.0.0.0:8085"
    assert Listening("::1").url == "http://[::1]:8085"


def test_files_that_are_no_pair_are_refused(certificates, tmp_path):
    certificate, key = certificates / "server.pem", certificates / "server.key"
    with pytest.raises(BadInput, match="not a certificate"):
        check_listening(Listening(certificate=certificate, key=certificates / "client.key"))
    with pytest.raises(BadInput, match="not a certificate"):
        check_listening(Listening(certificate=certificate, key=tmp_path / "none"))
    with pytest.raises(BadInput, match="belong together"):
        check_listening(Listening(certificate=certificate))
    loose = tmp_path / "loose.key"
    loose.write_bytes(key.read_bytes())
    loose.chmod(0o644)
    with pytest.raises(BadInput, match="chmod"):
        check_listening(Listening(certificate=certificate, key=loose))


def test_a_port_out_of_range_is_refused():
    with pytest.raises(BadInput, match="--port"):
        check_listening(Listening(port=70_000))
