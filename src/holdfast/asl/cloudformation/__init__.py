"""State machines in templates of CloudFormation, as CDK synthesises them and as SAM has them."""
