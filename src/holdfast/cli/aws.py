"""``holdfast aws``: create the table of a home on AWS, set it up for its load, and clean up."""

from __future__ import annotations

import asyncio

import click

from holdfast.backends.aws import (
    Cleaned,
    Cover,
    Listing,
    Settings,
    clean_up,
    create_table,
    parse_address,
    set_up,
    settle_parts,
)
from holdfast.cli.aws_verify import verify_account
from holdfast.cli.progress import Ticker
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import now
from holdfast.clock import iso, moment


@click.group("aws")
def aws() -> None:
    """The table and the bucket of a home on AWS, for operators."""


aws.add_command(verify_account)

url_argument = click.argument("url", metavar="[URL]", required=False)


def _home_of(session: Session, url: str | None) -> str:
    """The chosen home. Raises ``ConfigurationError`` unless it is on AWS."""
    chosen = url or session.home_url()
    parse_address(chosen)
    return chosen


@aws.command(
    "create-table",
    epilog=examples(
        "holdfast aws create-table 'aws://shop?region=eu-west-1'",
        "holdfast aws create-table -a shop:app --json",
        "holdfast aws create-table -a shop:app --listing",
    ),
)
@url_argument
@click.option("--listing", is_flag=True, help="With the index that `aws settings --listing index` wants.")
@on_home
def create(session: Session, *, url: str | None, listing: bool) -> None:
    """Create the table of a home unless it exists, and wait until it is ready.

    The table is billed per request, and has expiry (TTL) and point-in-time recovery. `holdfast infra template`
    describes the same table, and everything else that a home may have. Needs dynamodb:CreateTable, DescribeTable,
    UpdateTimeToLive and UpdateContinuousBackups; to give an existing table the index of --listing, UpdateTable too.
    """
    home = _home_of(session, url)
    created = asyncio.run(create_table(home, listing=listing))
    table = parse_address(home).table
    told = f"created the table {table}" if created else f"the table {table} exists already"
    told += ", with the index of listings" if listing else ""
    session.answer({"home": home, "table": table, "created": created}, told)


@aws.command(
    "clean-up",
    epilog=examples(
        "holdfast aws clean-up 'aws://shop?region=eu-west-1&bucket=shop-blobs' --dry-run",
        "holdfast aws clean-up -a shop:app --json",
    ),
)
@url_argument
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted. That costs the same reads.")
@on_home
def clean(session: Session, *, url: str | None, dry_run: bool) -> None:
    """Delete what is left of executions that have expired, and large values without a reference.

    For a cron job, once a day or a week, where no function is called for it: it reads the whole table, which costs half
    a read unit for each 4 KB. It may run while workers do, and it may be interrupted and run again. Needs the rights of
    a worker.
    """
    home = _home_of(session, url)
    with Ticker(quiet=session.json) as ticker:

        def tell(items: int, cleaned: Cleaned) -> None:
            ticker.tell(f"{items:,} items read, {cleaned.items:,} left over", items)

        cleaned = asyncio.run(clean_up(home, dry_run=dry_run, tell=tell))
    told = (
        f"{'would delete' if dry_run else 'deleted'} {cleaned.items:,} items of executions that have expired, "
        f"{cleaned.heads:,} heads of earlier releases, and {cleaned.blobs:,} blobs"
    )
    counts = {"heads": cleaned.heads, "items": cleaned.items, "blobs": cleaned.blobs}
    session.answer({"home": home, "dry_run": dry_run, **counts}, told)


@aws.command(
    "settings",
    epilog=examples(
        "holdfast aws settings 'aws://shop?region=eu-west-1'",
        "holdfast aws settings -a shop:app --parts 20",
        "holdfast aws settings -a shop:app --settle --json",
        "holdfast aws settings -a shop:app --cover stream",
        "holdfast aws settings -a shop:app --listing index",
    ),
)
@url_argument
@click.option(
    "--parts", type=int, help="The number of parts of the index of what is due, from six minutes from now on."
)
@click.option(
    "--cover", type=click.Choice(["index", "stream"]), help="What finds accepted work whose wake-up was lost."
)
@click.option(
    "--listing", type=click.Choice(["scan", "index"]), help="How executions and actors are listed: by an index or not."
)
@click.option("--settle", is_flag=True, help="Move what is still in parts that are no longer used.")
@on_home
def settings(
    session: Session,
    *,
    url: str | None,
    parts: int | None,
    cover: Cover | None,
    listing: Listing | None,
    settle: bool,
) -> None:
    """Show the settings of a home, or change them while it works.

    Each part of the index takes 1,000 writes a second. A change takes effect six minutes later, when every process has
    read it. After a change to fewer parts, sweeps look into the earlier ones too until they are settled, which is
    possible an hour after the change.

    The index finds accepted work whose wake-up was lost, and costs two units for each message and each start. With
    --cover stream, which needs a deployment with --stream, only what is still to be done a minute later enters it.

    Listings read the whole table. With --listing index, which needs a deployment with --listing, they read an index
    instead, in which each new execution and each new actor costs a unit. What is there already is entered first.
    """
    home = _home_of(session, url)
    moved = asyncio.run(settle_parts(home)) if settle else None
    there = asyncio.run(set_up(home, parts=parts, cover=cover, listing=listing))
    told = [_told(there)]
    if moved is not None:
        told.insert(0, f"moved {moved:,} heads")
    facts = {"home": home, "parts": there.parts, "parts_before": there.parts_before, "cover": there.cover}
    facts |= {"listing": there.listing, "since": there.since}
    session.answer(facts | ({} if moved is None else {"moved": moved}), "\n".join(told))


def _told(there: Settings) -> str:
    parts = f"{there.parts} part{'' if there.parts == 1 else 's'}"
    begun = moment(there.since)
    since = f" {'from' if begun > now() else 'since'} {iso(begun)}" if there.since else ""
    before = f"; before: {', '.join(map(str, there.parts_before))}" if there.parts_before else ""
    return (
        f"the index of what is due has {parts}{since}{before}; lost wake-ups are found by the {there.cover}; "
        f"listings read the {'index' if there.listing == 'index' else 'table'}"
    )
