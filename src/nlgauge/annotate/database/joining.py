"""Who joins a study: raters from links and platforms, each in the browser that was first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from hmac import compare_digest
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nlgauge.annotate.database import assignment as assigning
from nlgauge.annotate.database import logins, schema
from nlgauge.annotate.database.records import (
    NotExpected,
    Rater,
    Study,
    TooManyRaters,
    encode,
    hashed_id,
    pseudonym,
    record,
)
from nlgauge.annotate.settings import PLATFORMS
from nlgauge.errors import DataError, OptionError

_JOIN_LOCK = 7_310_156
_MINUTE = 60.0


class Raters(logins.Researchers):
    """Raters in the store."""

    def join(
        self, study: Study, platform: str, external_id: str, platform_data: Mapping[str, Any] | None = None
    ) -> Rater:
        """The rater with this platform id, created if new; only a hash of the id is stored.

        Values of `platform_data` that equal the id are left out.
        """
        kept = _checked(platform, external_id, platform_data or {})
        with self._write() as connection:
            return self._join(connection, study, platform, external_id, encode(kept) if kept else "")

    def claim(
        self,
        study: Study,
        external_id: str,
        browser: str,
        *,
        platform: str = "direct",
        data: Mapping[str, Any] | None = None,
    ) -> Rater | None:
        """The rater of a personal link or of a platform's id, for the browser that claims it first, or has; else None.

        The rater's row is locked from joining to the end, so that only one browser is first.
        """
        kept = _checked(platform, external_id, data or {})
        with self._write() as connection:
            if platform != "direct":
                self._admit(connection, study, platform, external_id)
            rater = self._join(connection, study, platform, external_id, "")
            owner = rater.platform_data.get("browser", browser)
            if not compare_digest(str(owner), browser):
                return None
            stored = encode({**rater.platform_data, **kept, "browser": browser})
            change = schema.change(schema.rater, rater.id, platform_json=stored)
            return record(Rater, connection.execute(change.returning(schema.rater)).one())

    def _admit(self, connection: Connection, study: Study, platform: str, external_id: str) -> None:
        """Raise an error for a new rater whose id is not expected, or who is one too many within a minute.

        Joins of a study are counted one after another, so that the limit holds on several servers.
        """
        rater, expected = schema.rater.c, schema.expected_rater.c
        hashed = self._hashed(connection, study, platform, external_id)
        if schema.has(connection, rater.study_id == study.id, rater.hashed_id == hashed):
            return
        on_list = expected.study_id == study.id
        if schema.has(connection, on_list) and not schema.has(connection, on_list, expected.hashed_id == hashed):
            raise NotExpected(f"an id that study '{study.name}' does not expect; expected one of its list")
        if not schema.is_sqlite(self.engine):
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_JOIN_LOCK, study.id)))
        now, most = self.now(), study.settings.joins_per_minute
        lately = rater.created_at.between(now - _MINUTE, now)
        query = sa.select(sa.func.count()).where(rater.study_id == study.id, rater.platform != "direct", lately)
        if connection.execute(query).scalar_one() >= most:
            raise TooManyRaters(f"more than {most} new raters of study '{study.name}' within a minute; expected fewer")

    def _hashed(self, connection: Connection, study: Study, platform: str, external_id: str) -> str:
        secret = connection.execute(sa.select(schema.study.c.secret).where(schema.study.c.id == study.id))
        return hashed_id(secret.scalar_one(), platform, external_id)

    def _join(self, connection: Connection, study: Study, platform: str, external_id: str, data: str) -> Rater:
        at = self.now()
        hashed = self._hashed(connection, study, platform, external_id)
        order = int.from_bytes(hashlib.sha256(f"{study.seed}:{hashed}".encode()).digest()[:7], "big")
        made = self.insert(schema.rater).values(
            study_id=study.id,
            pseudonym=pseudonym(hashed),
            hashed_id=hashed,
            platform=platform,
            platform_json=data or "{}",
            state="qualifying" if assigning.has_qualification(connection, study.id) else "active",
            order_seed=order,
            created_at=at,
            last_seen_at=at,
        )
        changed: dict[str, Any] = {"last_seen_at": at} | ({"platform_json": data} if data else {})
        query = made.on_conflict_do_update(index_elements=["study_id", "hashed_id"], set_=changed)
        return record(Rater, connection.execute(query.returning(schema.rater)).one())


def _checked(platform: str, external_id: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a platform's data, without the id; an error for an id or data that cannot be stored."""
    if platform not in PLATFORMS:
        raise OptionError(f"the platform '{platform[:40]}'; expected one of {', '.join(PLATFORMS)}")
    kept = {key: value for key, value in data.items() if value != external_id}
    try:
        external_id.encode()
        encode(kept)
    except UnicodeEncodeError as error:
        raise DataError(f"a rater's id or data with a lone surrogate ({error}); expected text") from error
    if not external_id:
        raise DataError("a rater without an id; expected the platform's id")
    return kept
