"""Traces for OpenTelemetry: spans of runs, attempts, calls, steps and waits (extra `otel`).

    names    what spans and attributes are called
    fold     what a journal says about spans: a span is known when it ends
    spans    writes them: from the journal, and around what runs in this process
    environment    the runtime's environment with traces, which puts spans around attempts and bodies

Only a supervisor with `traces=True` imports this package. Raises InvalidInput at the import without the API.
"""

from supervisor.core.errors import InvalidInput

try:
    import opentelemetry.trace  # noqa: F401 # asks whether it is installed
except ImportError:
    raise InvalidInput("traces need the API of OpenTelemetry: pip install 'subagent-supervisor[otel]'") from None

from supervisor.traces.environment import TracedEnvironment as TracedEnvironment
