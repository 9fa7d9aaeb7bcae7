"""The cases that do not pass, and why: what each wants is done, and tested, elsewhere; or is another tool's opinion.

``python -m tests.asl.conformance FOLDER -v`` prints the reason next to the difference. A reason changes no score.
"""

from __future__ import annotations

from typing import Final

NOT_ALL_OF_IT: Final = "the case has the definition alone, and it is valid; what is refused is "
AN_OPINION: Final = "an opinion of asl-validator, which Step Functions has not recorded: "

REASONS: Final[dict[str, str]] = {
    "test_sfn_api::test_create_duplicate_definition_format_sm::already_exists_1": (
        NOT_ALL_OF_IT + "a second request with the same definition in another layout "
        "(tests/http/states/test_machines.py::test_the_same_machine_again_is_no_error_and_another_one_is)"
    ),
    "test_sfn_api::test_create_update_state_machine_base_update_none::null_required_parameter": (
        "boto3 refuses it before it sends anything: the expected text is that of its own validation"
    ),
    "test_sfn_api_logs::test_invalid_logging_configuration[logging_configuration0]::exception": (
        NOT_ALL_OF_IT + "its loggingConfiguration "
        "(tests/http/states/test_machines.py::test_logging_without_a_destination_is_refused)"
    ),
    "test_sfn_api_logs::test_invalid_logging_configuration[logging_configuration1]::exception": (
        NOT_ALL_OF_IT + "its loggingConfiguration "
        "(tests/http/states/test_machines.py::test_logging_without_a_destination_is_refused)"
    ),
    "test_sfn_api_logs::test_deleted_log_group::exception": (
        NOT_ALL_OF_IT + "a log group of CloudWatch that was deleted; here are no log groups, and a destination is kept "
        "as it is given"
    ),
    "asl-validator::valid-assign.asl.json": (
        AN_OPINION + "it takes a variable 'top-level'; Step Functions wants an identifier of Unicode "
        "(Developer Guide, 'Passing data between states with variables')"
    ),
    "asl-validator::valid-current-value-predicate.json": (
        AN_OPINION
        + "it takes a filter that compares with a bare word, '@.OutputKey == FizzBuzz'; Jayway, whose dialect "
        "Step Functions has, reads only literals, paths and patterns there"
    ),
    "asl-validator::valid-path-array-context.json": (
        AN_OPINION + "it takes a script, '$[(@.length-1)]'; Jayway has none (its README lists the operators)"
    ),
    "test_state.test_field_validation_mode::"
    "test_strict_mode_aws_sdk_lambda_get_function_task[integer_more_than_maximum_allowed]::validation-exception": (
        "the most memory of a function was 10,240 MB when it was recorded; the API model that botocore has today says "
        "32,768 (shape MemorySize of lambda)"
    ),
    "test_state.test_field_validation_mode_present::"
    "test_present_mode_aws_sdk_lambda_get_function_task[integer_more_than_maximum_allowed]::validation-exception": (
        "as in the strict mode: the API model of today says 32,768"
    ),
}
"""By the name of the case."""
