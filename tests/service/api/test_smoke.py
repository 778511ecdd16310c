import time
def test_a(live):
    t=time.time()
    path=live.new()
    print('new',time.time()-t)
    t=time.time()
    print(live.say(path,{"query":"i0","positive":["i1"],"negative":["i2"]}))
    print('say',time.time()-t)
    t=time.time()
    print(live.ask("POST",path+"/search",json={"key":"i0","k":3}))
    print('search',time.time()-t)
    for body in (b'{"key":"i0","k":NaN}', b'{"key":', b'{}', b'[]', b'', b'{"key":"i0","vector":[1]}', b'{"vector":[1,"a",2,3]}', b'{"vector":"a b"}',b'{"key":"i0","zzz":1}',b'{"key":"i0","k":0}'):
        a=live.http.post(path+"/search",content=body,headers={"content-type":"application/json"})
        print(a.status_code,a.text)
    print(live.http.get("/metrics").text[-900:])
    print(live.http.post(path+"/search",content=b"{}").text)
    print(live.http.get("/nope").text)
