"""Logging that stays quiet while a body is replayed."""

from __future__ import annotations

import logging

from holdfast.workflows.scope import current_activation


class _QuietOnReplay(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - the signature of logging.Filter
        activation = current_activation()
        return activation is None or not activation.quiet


_FILTER = _QuietOnReplay()


def get_logger(name: str) -> logging.Logger:
    """The logger of this name, with a filter: what a workflow body logs while it replays was logged before.

    A process that dies may have logged what was never recorded; that is logged again.
    """
    logger = logging.getLogger(name)
    logger.addFilter(_FILTER)
    return logger
