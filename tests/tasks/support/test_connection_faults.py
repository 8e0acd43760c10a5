"""A driver's message becomes a cause and a remedy, and nothing of it is quoted."""

import psycopg
import pytest
import sqlalchemy as sa

from tasks.support.connection_faults import connection_fault

MARKER = "zqxsecret"


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ('FATAL:  password authentication failed for user "zqxsecret"', "refuses the user"),
        ("fe_sendauth: no password supplied", "requires a password"),
        (
            'FATAL:  no pg_hba.conf entry for host "::1", user "zqxsecret"',
            "does not admit this user",
        ),
        ('FATAL:  role "zqxsecret" does not exist', "no such user"),
        ('FATAL:  database "zqxsecret" does not exist', "no such database"),
        ("failed to resolve host 'zqxsecret': [Errno -2] Name or service not known", "not found"),
        ('connection to server at "zqxsecret", port 9 failed: Connection refused', "no server"),
        ('connection to server at "zqxsecret" failed: timeout expired', "over the network"),
        ("FATAL:  the database system is starting up", "has not finished starting"),
        ("FATAL:  the database system is shutting down", "is being stopped"),
        ("FATAL:  sorry, too many clients already", "no connection left"),
        ("server does not support SSL, but SSL was required", "does not offer the TLS"),
        ('root certificate file "/zqxsecret/ca.pem" does not exist', "does not offer the TLS"),
    ],
)
def test_a_known_message_has_a_cause(message, says):
    error = sa.exc.OperationalError(None, None, psycopg.OperationalError(message))
    fault = connection_fault(error)
    assert says in fault.says
    assert fault.remedy
    assert MARKER not in fault.says + fault.remedy


def test_an_unknown_message_has_none():
    assert connection_fault(psycopg.OperationalError("something new")) is None
