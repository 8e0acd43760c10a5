"""What the service remembers, and who may read it."""

import stat

from flows.desk.service.service_records import ServiceRecords
from flows.desk.service.tokens import FOLDER


def test_only_the_owner_reads_the_records(tmp_path):
    ServiceRecords(tmp_path).take("rand", 1)
    assert stat.S_IMODE((tmp_path / FOLDER / "service.db").stat().st_mode) == 0o600
