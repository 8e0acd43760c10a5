"""Methods that release statistics or records instead of tables; one method, one file."""
