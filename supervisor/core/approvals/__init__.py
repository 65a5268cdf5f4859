"""What people are asked, who may decide, and how an answer is read. Pure."""
