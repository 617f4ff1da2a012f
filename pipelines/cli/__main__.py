"""Where the program ``bitext`` begins: Ctrl-C is watched for before the rest is imported."""

from __future__ import annotations

import sys

from pipelines.cli.begin import stop_at_ctrl_c


def main() -> None:
    """Run the program until it ends or is interrupted."""
    stop_at_ctrl_c()
    from pipelines.cli.stop import shortage, stopped_by_ctrl_c

    try:
        with stopped_by_ctrl_c():
            from pipelines.cli.app import main as run

            run()
    except MemoryError as error:
        sys.stderr.write(f"{shortage(error)}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
