"""What demonstration and stories share: processes to kill, a bank outside, and the audit of the bank's ledger."""
