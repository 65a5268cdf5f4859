"""The store on PostgreSQL, which any number of machines share."""
