"""Small templates in the shapes of CDK's and SAM's, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TRADER = """\
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Description: Buys below a price, and sells above it.
Parameters:
  Stage: {Type: String, Default: stack}
Resources:
  Trader:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: machine/trader.asl.json
      DefinitionSubstitutions:
        PriceFunctionArn: !GetAtt PriceFunction.Arn
        BuyFunctionArn: !GetAtt BuyFunction.Arn
        SellFunctionArn:
          Fn::GetAtt: [SellFunction, Arn]
        PutItem: !Sub arn:${AWS::Partition}:states:::dynamodb:putItem
        TableName: !Ref Trades
        KeptAs: !Join ["-", [!Ref Stage, !Ref Trades]]
      Policies:
        - LambdaInvokePolicy: {FunctionName: !Ref PriceFunction}
        - DynamoDBWritePolicy:
            TableName: !Ref Trades
  PriceFunction:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: functions/price/, Handler: app.handler, Runtime: python3.12}
  BuyFunction:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: functions/buy/, Handler: app.handler, Runtime: python3.12}
  SellFunction:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: functions/sell/, Handler: app.handler, Runtime: python3.12}
  Trades:
    Type: AWS::Serverless::SimpleTable
    Properties:
      PrimaryKey: {Name: Id, Type: String}
Outputs:
  TraderArn:
    Value: !Ref Trader
"""

TRADER_DEFINITION = """\
{
  "StartAt": "Ask the price",
  "States": {
    "Ask the price": {
      "Type": "Task", "Resource": "${PriceFunctionArn}", "ResultPath": "$.price", "Next": "Buy or sell?",
      "Retry": [{"ErrorEquals": ["States.TaskFailed"], "IntervalSeconds": 15, "MaxAttempts": 5, "BackoffRate": 1.5}]
    },
    "Buy or sell?": {
      "Type": "Choice",
      "Choices": [{"Variable": "$.price", "NumericLessThanEquals": 50, "Next": "Buy"}],
      "Default": "Sell"
    },
    "Buy": {
      "Type": "Task", "Resource": "${BuyFunctionArn}", "InputPath": "$.price", "ResultPath": "$.trade", "Next": "Keep"
    },
    "Sell": {
      "Type": "Task", "Resource": "${SellFunctionArn}", "InputPath": "$.price", "ResultPath": "$.trade", "Next": "Keep"
    },
    "Keep": {
      "Type": "Task",
      "Resource": "${PutItem}",
      "Parameters": {"TableName": "${TableName}", "Item": {"Id": {"S": "${KeptAs}"}}},
      "ResultSelector": {"kept.$": "$.kept"},
      "ResultPath": "$.put",
      "Next": "Report"
    },
    "Report": {
      "Type": "Pass",
      "Parameters": {"price.$": "$.price", "trade.$": "$.trade", "kept.$": "$.put.kept"},
      "End": true
    }
  }
}
"""

IMPORT = """\
StartAt: Pause
States:
  Pause:
    Type: Wait
    Seconds: ${Seconds}
    Next: Done
  Done:
    Type: Pass
    Result:
      since: 2026-11-28
      "on": yes
    End: true
"""


def trades(asked: list[str]) -> dict[str, Callable[[Any], Any]]:
    """What the tasks of the trader call, by the names of its template."""

    def traded(side: str, price: int) -> dict[str, Any]:
        asked.append(side)
        return {"side": side, "price": price}

    return {
        "PriceFunction": lambda _given: 40,
        "BuyFunction": lambda price: traded("buy", price),
        "SellFunction": lambda price: traded("sell", price),
        "dynamodb:putItem": lambda given: {"kept": given["Item"]["Id"]["S"], "table": given["TableName"]},
    }


def CHECKER(given: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - what stands for lambda:invoke
    """Invokes a function by its name, as ``lambda:invoke`` does."""
    name = given["FunctionName"].rpartition(":")[2]
    assert name in ("SubmitF00DBABE", "StatusDEADBEEF"), name
    payload = 17 if name.startswith("Submit") else {"state": "DONE"}
    return {"ExecutedVersion": "$LATEST", "Payload": payload, "StatusCode": 200}


RETRY = (
    '"Retry":[{"ErrorEquals":["Lambda.ClientExecutionTimeoutException","Lambda.ServiceException",'
    '"Lambda.AWSLambdaException","Lambda.SdkClientException"],"IntervalSeconds":2,"MaxAttempts":6,"BackoffRate":2}]'
)
PARTITION = {"Ref": "AWS::Partition"}


def synthesised() -> dict[str, Any]:
    """A template as `cdk synth` writes it: definitions are texts, joined around references."""
    invoke = ':states:::lambda:invoke","Parameters":{"FunctionName":"'
    submit = f'"Submit":{{"Next":"Wait",{RETRY},"Type":"Task","ResultPath":"$.submitted",'
    submit += '"ResultSelector":{"id.$":"$.Payload"},"Resource":"arn:'
    wait = '"Wait":{"Type":"Wait","Seconds":30,"Next":"Status"}'
    status = f'"Status":{{"Next":"Done?",{RETRY},"Type":"Task","ResultPath":"$.status",'
    status += '"ResultSelector":{"state.$":"$.Payload.state"},"Resource":"arn:'
    choice = (
        '"Done?":{"Type":"Choice","Choices":[{"Variable":"$.status.state","StringEquals":"FAILED","Next":"Failed"},'
    )
    choice += '{"Variable":"$.status.state","StringEquals":"DONE","Next":"Report"}],"Default":"Wait"}'
    failed = '"Failed":{"Type":"Fail","Error":"JobFailed","Cause":"it failed"}'
    report = '"Report":{"Type":"Pass","Parameters":{"job.$":"$.job","status.$":"$.status"},"End":true}'
    poller = [
        '{"StartAt":"Submit","States":{' + submit,
        PARTITION,
        invoke,
        {"Fn::GetAtt": ["SubmitF00DBABE", "Arn"]},
        f'","Payload.$":"$"}}}},{wait},{status}',
        PARTITION,
        invoke,
        {"Fn::GetAtt": ["StatusDEADBEEF", "Arn"]},
        f'","Payload.$":"$.submitted.id"}}}},{choice},{failed},{report}}},"TimeoutSeconds":3600}}',
    ]
    quick = '{"StartAt":"Done","States":{"Done":{"Type":"Succeed"}}}'
    function = {"Type": "AWS::Lambda::Function", "Properties": {"Handler": "index.handler", "Runtime": "python3.12"}}
    return {
        "Resources": {
            "SubmitF00DBABE": function,
            "StatusDEADBEEF": function,
            "PollerRole1234ABCD": {"Type": "AWS::IAM::Role", "Properties": {}},
            "Poller9A1B2C3D": {
                "Type": "AWS::StepFunctions::StateMachine",
                "Properties": {
                    "DefinitionString": {"Fn::Join": ["", poller]},
                    "RoleArn": {"Fn::GetAtt": ["PollerRole1234ABCD", "Arn"]},
                },
                "DependsOn": ["PollerRole1234ABCD"],
                "UpdateReplacePolicy": "Delete",
                "DeletionPolicy": "Delete",
            },
            "Quick5E6F7A8B": {
                "Type": "AWS::StepFunctions::StateMachine",
                "Properties": {"DefinitionString": quick, "StateMachineType": "EXPRESS"},
            },
        },
        "Parameters": {
            "BootstrapVersion": {
                "Type": "AWS::SSM::Parameter::Value<String>",
                "Default": "/cdk-bootstrap/hnb659fds/version",
            }
        },
    }
