-- adjust: gives back what a call charged in one slot of a Redis Cluster for a request that
-- was denied in another: settle without a reservation. It is sent once.

adjust_all()
return reply
