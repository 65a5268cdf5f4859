"""What all chat platforms share: conversations, pieces of text, presses and answers."""
