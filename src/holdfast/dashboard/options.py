"""The dashboard as an app mounts it: what ``app.asgi(dashboard=...)`` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.dashboard.settings import Settings
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.dashboard.site import DashboardSite
    from holdfast.http.api import Options
    from holdfast.http.asgi import Servable


class Dashboard(Settings, frozen=True, kw_only=True):
    """A dashboard below ``path`` of an app's server. Callers and their rights are those of the API.

        api = app.asgi(authenticate=tokens, dashboard=hf.Dashboard(path="/ops", title="shop, production"))

    ``title`` is in the head of every page; the app's name by default. With ``hosts`` only requests to these names are
    answered (``shop.example`` or ``shop.example:8443``). Raises ``ConfigurationError`` for a path that cannot be one.
    """

    def site(self, app: Servable, options: Options) -> DashboardSite:
        """The pages, for an app. Raises ``ConfigurationError`` without the extra ``dashboard``."""
        try:
            from holdfast.dashboard.site import DashboardSite  # noqa: PLC0415 - only a dashboard needs the extra
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "the dashboard needs starlette, jinja2 and itsdangerous: pip install '.[dashboard]' in a checkout of "
                "Holdfast"
            ) from error
        return DashboardSite(app, options, self)
