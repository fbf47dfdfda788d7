"""The annotation site as one application: pages for raters and researchers over a store."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from nlgauge._version import __version__
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.pages.rater import rater_routes
from nlgauge.annotate.pages.researcher import researcher_routes
from nlgauge.annotate.pages.security import AppSettings, Guard, Refused, Site, failure, refusal
from nlgauge.annotate.pages.signing import TokenError
from nlgauge.errors import NLGaugeError

__all__ = ["AppSettings", "create_app"]

_STATIC_SECONDS = 300


class _StaticFiles(StaticFiles):
    """Styles and scripts hold no personal data: browsers cache them, then revalidate."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        made = super().file_response(full_path, stat_result, scope, status_code)
        made.headers["Cache-Control"] = f"public, max-age={_STATIC_SECONDS}"
        return made


def create_app(store: Store, settings: AppSettings) -> FastAPI:
    """The site; the tables of the database must exist (`schema.migrate`)."""
    site = Site(store, settings, settings.key())
    app = FastAPI(
        title="NLGauge annotation", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json"
    )
    app.mount("/static", _StaticFiles(directory=Path(__file__).parent.parent / "static"), name="static")
    app.include_router(rater_routes(site))
    app.include_router(researcher_routes(site))
    app.add_middleware(Guard, largest_body=settings.largest_body, is_secure=settings.is_secure)
    app.add_exception_handler(NLGaugeError, _known_error)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _plain_status)
    return app


def _known_error(request: Request, error: Exception) -> Response:
    """A page for an NLGauge error; details of a database error go to the log."""
    if isinstance(error.__cause__, SQLAlchemyError):
        return failure(request, error, status=503)
    title = "This link does not work" if isinstance(error, TokenError) else "Not possible"
    return refusal(request, Refused(403 if isinstance(error, TokenError) else 409, title, f"{str(error).rstrip('.')}."))


def _not_valid(request: Request, error: Exception) -> Response:
    places = error.errors() if isinstance(error, RequestValidationError) else []
    found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in places[:3])
    if request.url.path.startswith("/api/"):
        return refusal(request, Refused(422, "Not understood", found or "not understood"))
    return _plain_status(request, HTTPException(404))


def _plain_status(request: Request, error: Exception) -> Response:
    """Errors of the framework as pages of the site."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {
        404: ("Nothing here", "There is no such page."),
        405: ("Not possible", "This page does not support this kind of request."),
    }
    made = refusal(request, Refused(status, *words.get(status, ("Not understood", "The request was not understood."))))
    for name, value in (getattr(error, "headers", None) or {}).items():
        made.headers[name] = value
    return made
