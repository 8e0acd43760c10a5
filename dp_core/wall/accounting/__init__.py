"""What an event costs, and how costs add up."""
